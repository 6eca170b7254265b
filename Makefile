# `make bench` is the main job, `make test` runs every test. Tests need root for namespaces, veth and XDP.
PACKAGES = chromium iproute2 ethtool sockperf util-linux

.PHONY: build bench test targets packages
build:
	cargo build --release --workspace

bench: build
	target/release/nearwire bench --json nearwire.json --report nearwire.html

packages:
	@missing=""; for p in $(PACKAGES); do dpkg -s $$p >/dev/null 2>&1 || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$missing; fi

# NEARWIRE_REQUIRE=all: a rung of the test ladder that cannot run fails, it is not skipped.
test: packages
	NEARWIRE_REQUIRE=all cargo test --workspace

# The speed targets, against sockperf on the same cable. Two minutes on an otherwise idle machine.
targets: packages
	cargo bench -p nearwire-cli --bench targets
