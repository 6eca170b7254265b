# `make bench` is the main job, `make test` runs every test. Tests need root for namespaces, veth and XDP.
TEST_PACKAGES = chromium iproute2 ethtool gcc g++ make pkg-config mandoc tcpdump
TARGETS_PACKAGES = sockperf

.PHONY: build bench install test targets
build:
	cargo build --release --workspace

bench: build
	target/release/nearwire bench --json nearwire.json --report nearwire.html

# Header, libraries, pkg-config file and manual of libnearwire, below PREFIX.
install:
	cargo build --release -p nearwire-capi
	$(MAKE) -C crates/capi install

# Installs what is missing of $(1); Debian, root.
install = missing=""; for p in $(1); do dpkg -s $$p >/dev/null 2>&1 || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$missing; fi

# NEARWIRE_REQUIRE=all: a rung of the test ladder that cannot run fails, it is not skipped.
test:
	@$(call install,$(TEST_PACKAGES))
	NEARWIRE_REQUIRE=all cargo test --workspace

# The speed targets, against sockperf on the same cable. Two minutes on an otherwise idle machine.
targets:
	@$(call install,$(TARGETS_PACKAGES))
	cargo bench -p nearwire-cli --bench targets
