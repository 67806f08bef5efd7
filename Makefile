# prismfs: build, demo, tests. `make help` lists the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

GO      ?= go
# Debian's Python, which has Debian's torch; another python3 may come first in PATH.
PYTHON  ?= /usr/bin/python3
PREFIX  ?= /usr/local
DESTDIR ?=
# Where mount(8) looks for mount.prismfs, which is a link to the binary.
SBINDIR ?= /sbin
UNITDIR ?= /usr/lib/systemd/system
# Time for each fuzz target of `make fuzz`, and of `make test`.
FUZZTIME      ?= 60s
TEST_FUZZTIME ?= 20s
SOAK          ?= 1h

export PYTHON
# The headers that go-nvml comes with call some of what it binds deprecated.
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations

.PHONY: help setup build man install demo test bench bench-mount bench-plain bench-pcr bench-echo bench-plan bench-names echo-training check-gpu check-libcuda check-containers check-ptx lint fuzz soak clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what is missing (Debian, as root), or say what to install
	@scripts/setup

# The version that the command prints is Go's stamp of the git tag and revision.
build: ## bin/prismfs
	$(GO) build -trimpath -o bin/prismfs ./cmd/prismfs

man: ## bin/man: manual pages; bin/completions: for bash, zsh and fish
	rm -rf bin/man bin/completions
	mkdir -p bin/man bin/completions
	$(GO) run -tags man ./cmd/prismfs man bin/man
	for shell in bash zsh fish; do $(GO) run -tags man ./cmd/prismfs completion $$shell >bin/completions/$$shell; done

install: build man ## into PREFIX (/usr/local), with mount.prismfs in SBINDIR (/sbin), below DESTDIR
	install -D -m 755 bin/prismfs '$(DESTDIR)$(PREFIX)/bin/prismfs'
	install -d '$(DESTDIR)$(SBINDIR)'
	ln -sf '$(PREFIX)/bin/prismfs' '$(DESTDIR)$(SBINDIR)/mount.prismfs'
	install -d '$(DESTDIR)$(PREFIX)/share/man/man1'
	install -m 644 bin/man/*.1 '$(DESTDIR)$(PREFIX)/share/man/man1'
	install -D -m 644 bin/completions/bash '$(DESTDIR)$(PREFIX)/share/bash-completion/completions/prismfs'
	install -D -m 644 bin/completions/zsh '$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_prismfs'
	install -D -m 644 bin/completions/fish '$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/prismfs.fish'
	install -d '$(DESTDIR)$(UNITDIR)'
	sed 's|@PREFIX@|$(PREFIX)|' packaging/prismfs@.service | install -m 644 /dev/stdin '$(DESTDIR)$(UNITDIR)/prismfs@.service'
	install -D -m 644 packaging/logrotate '$(DESTDIR)$(PREFIX)/share/doc/prismfs/logrotate'
	install -D -m 644 LICENSE '$(DESTDIR)$(PREFIX)/share/doc/prismfs/LICENSE'
	install -D -m 644 NOTICE '$(DESTDIR)$(PREFIX)/share/doc/prismfs/NOTICE'

demo: setup build ## pack sample images, mount them, read them with PyTorch
	@scripts/demo

test: setup lint ## lint, every test, a short fuzz of every fuzz target
	@$(GO) run ./scripts/testrun -fuzztime '$(TEST_FUZZTIME)'

bench: bench-mount bench-pcr bench-echo ## the three that follow, which takes twelve minutes

bench-mount: setup build ## speed of the mount beside tmpfs and beside PNG files, in one run
	@$(PYTHON) -B benchmarks/run

bench-plain: setup build ## reading decoded files in both speed classes, beside a go-fuse loopback and a tmpfs, in three minutes (root)
	$(GO) build -trimpath -o bin/loopback ./benchmarks/loopback
	@$(PYTHON) -B benchmarks/plain

bench-pcr: setup build ## what a fidelity of PCR costs and gains, from the page cache and throttled
	@$(PYTHON) -B benchmarks/pcr

bench-echo: setup build ## images a second against the echo factor, beside what loading and decoding allow
	@$(PYTHON) -B benchmarks/echo

IMAGES ?= examples/images

bench-plan: setup build ## how long readers wait with a plan of their order and without, for IMAGES (examples/images)
	@$(PYTHON) -B benchmarks/plan --images '$(IMAGES)'

bench-names: setup build ## listings, sizes and daemon memory of 300,000 files, beside a plain folder and a plain FUSE mount
	$(GO) build -trimpath -o bin/loopback ./benchmarks/loopback
	@$(PYTHON) -B benchmarks/names

echo-training: setup build ## train with echoes and without: fresh samples to an accuracy, as table and as plot in bin/
	$(GO) build -trimpath -o bin/trainingplot ./benchmarks/trainingplot
	@$(PYTHON) -B benchmarks/training --json bin/echo-training.json --plot bin/echo-training.png

check-gpu: build ## the GPU of this machine: whether it decodes as it should, and how fast (status 2: there is none)
	$(GO) build -trimpath -o bin/checkgpu ./scripts/checkgpu
	@scripts/check-gpu

check-libcuda: build ## what is said on a machine with NVIDIA's libraries and no GPU; fetches Debian's (non-free)
	@scripts/check-libcuda

check-containers: build ## podman, Docker and systemd, as far as this machine has them (root; status 2: it has none)
	@scripts/check-containers

check-ptx: ## what ptxas makes of the kernels for sm_70 to sm_90; fetches Debian's (non-free) where there is none
	@gpudecode/kernels/assemble

lint: ## gofmt, go vet, staticcheck
	@unformatted=$$(gofmt -l .); \
	  [ -z "$$unformatted" ] || { echo "gofmt would change:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

fuzz: ## every fuzz target for FUZZTIME (60s)
	@$(GO) run ./scripts/testrun -only fuzz -fuzztime '$(FUZZTIME)'

soak: setup ## readers, killed readers, replaced sources and short memory for SOAK (1h), by mounts in four modes
	PRISMFS_TEST_SOAK='$(SOAK)' $(GO) test ./integration -run '^TestSoak$$' -count=1 -timeout 0 -v

clean: ## remove bin/
	rm -rf bin
