# `make bench` is the main job, `make test` runs every test. Tests need root for namespaces, veth and XDP.
TEST_PACKAGES = chromium iproute2 ethtool
# Emulated hosts: QEMU alone, and what takes a kernel's package apart. What these recommend (a display, firmware) is not used.
EMULATION_PACKAGES = qemu-system-x86 busybox-static e2fsprogs zstd xz-utils
TARGETS_PACKAGES = sockperf

TARGET_DIRECTORY = $(or $(CARGO_TARGET_DIR),target)

.PHONY: build bench test targets emulation-packages
build:
	cargo build --release --workspace

bench: build
	target/release/nearwire bench --json nearwire.json --report nearwire.html

# Installs what is missing of $(1), with options $(2) of apt-get; Debian, root.
install = missing=""; for p in $(1); do dpkg -s $$p >/dev/null 2>&1 || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(2) $$missing; fi

# The kernel of emulated hosts: a download of 105 MB, once.
$(TARGET_DIRECTORY)/emulated-host/vmlinux: crates/lab/emulated-host/fetch-kernel | emulation-packages
	crates/lab/emulated-host/fetch-kernel $(@D)

emulation-packages:
	@$(call install,$(EMULATION_PACKAGES),--no-install-recommends)

# NEARWIRE_REQUIRE=all: a rung of the test ladder that cannot run fails, it is not skipped.
test: $(TARGET_DIRECTORY)/emulated-host/vmlinux
	@$(call install,$(TEST_PACKAGES))
	NEARWIRE_REQUIRE=all cargo test --workspace

# The speed targets, against sockperf on the same cable. Two minutes on an otherwise idle machine.
targets:
	@$(call install,$(TARGETS_PACKAGES))
	cargo bench -p nearwire-cli --bench targets
