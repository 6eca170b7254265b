# `make bench` is the main job, `make test` runs every test. Tests need root for namespaces, veth and XDP.
TEST_PACKAGES = chromium iproute2 ethtool gcc g++ make pkg-config mandoc tcpdump
# Emulated hosts: QEMU alone, and what takes a kernel's package apart. What these recommend (a display, firmware) is not used.
EMULATION_PACKAGES = qemu-system-x86 busybox-static e2fsprogs zstd xz-utils
# What reads exported files, and starts nearwire on each host of a fleet; with what ansible-core recommends it would be half a gigabyte.
READER_PACKAGES = procps systemd udev kmod ansible-core openmpi-bin
# What `nearwire run` is tried with.
PROGRAM_PACKAGES = sockperf iperf3 ngtcp2-client openssl dnsmasq-base bind9-dnsutils dnsperf socat python3 sip-tester openvpn nodejs nftables iptables \
	redis-tools wrk curl openssh-client
TARGETS_PACKAGES = sockperf socat redis-tools gcc libc6-dev

TARGET_DIRECTORY = $(or $(CARGO_TARGET_DIR),target)
# Unpacked and not installed: their services would tune this host, and serve on it.
UNPACKED = $(addprefix $(TARGET_DIRECTORY)/,tuned unbound memcached chrony dnsdist nsd ngtcp2-server nginx rsync openssh-server postgresql-15 \
	openvswitch-switch openvswitch-common dpdk-dev)
# What testpmd is linked to, and the drivers that it is tried with: 3 MB in all.
DPDK_LIBRARIES = $(patsubst %,librte-%23,bitratestats bpf bus-auxiliary bus-dpaa bus-pci bus-vdev cmdline common-dpaax common-iavf common-mlx5- crypto-scheduler cryptodev eal ethdev \
	eventdev gro gso hash ip-frag kvargs latencystats mbuf mempool-dpaa mempool-ring mempool meter metrics net-bnxt net-bond net-dpaa net-i40e \
	net-ice net-ixgbe net-memif net-mlx5- net pcapng pci pdump rcu reorder ring sched security telemetry timer)
UNPACKED_LIBRARIES = libcap2 libcdb1 libedit2 libevent-2.1-7 libfstrm0 libgnutls30 libgssapi-krb5-2 libh2o-evloop0.13 liblmdb0 libluajit-5.1-2 libnettle8 \
	libnghttp2-14 libpcre2-8-0 libpopt0 libprotobuf-c1 libpython3.11 libre2-9 libsasl2-2 libseccomp2 libsnmp40 libsodium23 libssl3 \
	libwrap0 libxxhash0 libpq5 libicu72 libxml2 libldap-2.5-0 libpam0g liblz4-1 libzstd1 libbpf1 libcap-ng0 libnuma1 libunbound8 libxdp1 \
	$(DPDK_LIBRARIES)
UNPACKED_PROGRAMS = $(subst $() ,:,$(abspath $(addprefix $(TARGET_DIRECTORY)/,unbound/usr/sbin memcached/usr/bin chrony/usr/sbin dnsdist/usr/bin nsd/usr/sbin ngtcp2-server/usr/sbin \
	nginx/usr/sbin rsync/usr/bin openssh-server/usr/sbin postgresql-15/usr/lib/postgresql/15/bin \
	openvswitch-switch/usr/lib/openvswitch-switch openvswitch-switch/usr/bin openvswitch-common/usr/bin openvswitch-common/usr/sbin \
	dpdk-dev/usr/bin)))

.PHONY: build bench bench-dataplane install test test-kernels targets fuzz fuzz-build fuzz-minimize emulation-packages
build:
	cargo build --release --workspace

bench: build
	target/release/nearwire bench --json nearwire.json --report nearwire.html

# Below PREFIX: the command with the library it preloads, and its manual; header, libraries, pkg-config file and manual of
# libnearwire.
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
install:
	cargo build --release -p nearwire-capi -p nearwire-cli -p nearwire-preload
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(LIBDIR)/nearwire
	install -m 755 $(TARGET_DIRECTORY)/release/nearwire $(DESTDIR)$(PREFIX)/bin
	install -m 755 $(TARGET_DIRECTORY)/release/libnearwire_preload.so $(DESTDIR)$(LIBDIR)/nearwire
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 crates/cli/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1
	$(MAKE) -C crates/capi install PREFIX=$(PREFIX) LIBDIR=$(LIBDIR)

# Installs what is missing of $(1), with the options $(2) of apt-get; Debian, root.
install = missing=""; for p in $(1); do dpkg -s $$p >/dev/null 2>&1 || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(2) $$missing; fi

# The kernels of emulated hosts, downloads of 70, 105 and 121 MB, once: the distribution's own, the one backported to it, and the newest that is
# backported to a later release.
KERNELS = 6.1 6.12 newest
KERNEL_FILES = $(KERNELS:%=$(TARGET_DIRECTORY)/emulated-host/%/vmlinux)
$(KERNEL_FILES): crates/lab/emulated-host/fetch-kernel | emulation-packages
	crates/lab/emulated-host/fetch-kernel $(@D) $(notdir $(@D))

emulation-packages:
	@$(call install,$(EMULATION_PACKAGES),--no-install-recommends)

$(UNPACKED):
	mkdir -p $(@D) && apt-get update -qq && cd $(@D) && apt-get download -qq $(@F) && dpkg -x $(@F)_*.deb $(@F) && rm $(@F)_*.deb

# Every topology, some minutes; one page of all: dataplane.html.
DATAPLANE = $(TARGET_DIRECTORY)/dataplane
bench-dataplane: build namespaces $(KERNEL_FILES) emulation-packages $(TARGET_DIRECTORY)/openvswitch-switch $(TARGET_DIRECTORY)/openvswitch-common
	@$(call install,libxdp1 libbpf1 libcap-ng0 libnuma1 libunbound8,--no-install-recommends)
	mkdir -p $(DATAPLANE)
	contrib/bench-dataplane $(TARGET_DIRECTORY)/release/nearwire $(DATAPLANE) "$(UNPACKED_PROGRAMS)"

# Without network namespaces nothing of the network can be tested: said before anything is built.
.PHONY: namespaces test-fresh
namespaces:
	@unshare --net true || { echo "make test: this machine or container gives no network namespace (unshare --net, above); \
	tests need root with CAP_SYS_ADMIN and CAP_NET_ADMIN (docker run --privileged)" >&2; exit 1; }

# The same on a machine where nothing is: a clone of what is committed, with empty /run, /var/tmp and /root.
test-fresh: namespaces
	contrib/test-fresh

# NEARWIRE_REQUIRE=all: a rung of the test ladder that cannot run fails, it is not skipped.
test: namespaces $(KERNEL_FILES) $(UNPACKED)
	@$(call install,$(TEST_PACKAGES))
	@$(call install,$(READER_PACKAGES) $(PROGRAM_PACKAGES) $(UNPACKED_LIBRARIES),--no-install-recommends)
	PATH="$$PATH:$(UNPACKED_PROGRAMS)" PYTHONPATH=$(abspath $(TARGET_DIRECTORY)/tuned)/usr/lib/python3/dist-packages \
		NEARWIRE_REQUIRE=all cargo test --workspace

# Every script of the differential runner, and generated sequences, on each stock kernel in emulated hosts: 105 minutes. Before, what
# `make test` runs on the older of these kernels alone: ports, the command, programs and VLANs on the newest, and drivers on the oldest.
test-kernels: namespaces $(KERNEL_FILES)
	NEARWIRE_REQUIRE=all cargo test -p nearwire-frames -p nearwire-cli -p nearwire-preload --test ports --test live --test drivers --test vlans -- \
		--ignored newest linux_6_1
	NEARWIRE_REQUIRE=all NEARWIRE_KERNEL_TESTS=all cargo test -p nearwire-preload --test differential on_stock_kernel -- \
		--include-ignored --nocapture --test-threads=1

# The speed targets, against sockperf on the same cable. Eight minutes on an otherwise idle machine, four for the commands of
# tuning, and six for how calls wait; ONLY=send: those figures, and the targets that need no others; ONLY="run -- true,ping": both of these;
# ONLY=tune: check and tune measure; ONLY=load: the workloads load and stream; ONLY="waiting tunnel": how calls wait, in these cells. BASE=/path/to/nearwire: against another build, in the same rounds.
targets:
	@$(call install,$(TARGETS_PACKAGES))
	cargo build --release -p nearwire-preload
	cargo bench -p nearwire-cli --bench targets -- $(if $(ONLY),"$(ONLY)")

# Fuzzing, one target after the other. New inputs stay in FUZZ_DIRECTORY; one that fails is left in fuzz/failures.
FUZZ_TARGETS = agent wire receive calls segments steering config capture
FUZZ_RUNS = 1000000
FUZZ_INPUT_BYTES = 400
FUZZ_DIRECTORY = $(abspath $(TARGET_DIRECTORY))/fuzz
FUZZ = $(FUZZ_DIRECTORY)/$(shell rustc --print host-tuple)/release/fuzz -max_len=$(FUZZ_INPUT_BYTES) -rss_limit_mb=2048

fuzz-build:
	cd fuzz && cargo build --release --target-dir $(FUZZ_DIRECTORY)

fuzz: fuzz-build
	@mkdir -p fuzz/failures; for target in $(FUZZ_TARGETS); do \
		found=$(FUZZ_DIRECTORY)/found/$$target; mkdir -p $$found; \
		NEARWIRE_FUZZ_TARGET=$$target $(FUZZ) -runs=$(FUZZ_RUNS) -timeout=20 -artifact_prefix=fuzz/failures/$$target- \
			$$found fuzz/corpus/$$target 2> $$found.log || { tail -n 40 $$found.log; exit 1; }; \
		echo "$$target: $$(grep DONE $$found.log)"; \
	done

# Of the corpus and what was found since, the inputs that together reach all that was reached.
fuzz-minimize: fuzz-build
	@set -e; for target in $(FUZZ_TARGETS); do \
		kept=$(FUZZ_DIRECTORY)/kept/$$target; rm -rf $$kept; mkdir -p $$kept $(FUZZ_DIRECTORY)/found/$$target; \
		NEARWIRE_FUZZ_TARGET=$$target $(FUZZ) -set_cover_merge=1 $$kept fuzz/corpus/$$target \
			$(FUZZ_DIRECTORY)/found/$$target 2> $$kept.log || { tail -n 40 $$kept.log; exit 1; }; \
		rm -rf fuzz/corpus/$$target; mv $$kept fuzz/corpus/$$target; \
		echo "$$target: $$(ls fuzz/corpus/$$target | wc -l) inputs"; \
	done
