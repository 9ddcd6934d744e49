# Two commands matter to a newcomer: `make demo` and `make test`. Each does all of its own set-up.
.DEFAULT_GOAL := help
.PHONY: help setup demo demo-down check test test-full lint release docs pins clean

help: ## Show what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: ## Make the virtual environment (.venv) with the railyard command in it, for use
	@tools/setup

demo: ## Provision, measure and judge the built-in lab of two VMs (root or sudo); LAB=container: the quick one, TCP only; LAB=infiniband: a simulated InfiniBand subnet; SUITE=noble: on Ubuntu
	@tools/demo "$(LAB)" "$(SUITE)"

demo-down: ## Take the lab of the demo down
	@.venv/bin/railyard lab down

check: ## Everything that needs no node: lint, types, unit and golden tests on both supported series of ansible-core
	@tools/test check

test: ## Everything that CI runs, side by side where it can be (root or sudo; starts lab nodes and removes them)
	@tools/test all

test-full: ## What takes longer than `make test` and is not in it: long role scenarios, cables, rolling changes, drivers, a kernel update, Ubuntu, the demo on VMs
	@tools/test full

lint: ## ruff, mypy, yamllint, ansible-lint, shellcheck, plain language
	@tools/test lint types

release: setup ## Build the collection, the wheel, their bill of materials and checksums into dist/ (from a clean checkout)
	@PATH="$$PWD/.venv/bin:$$PATH" .venv/bin/python tools/release.py

docs: ## Build the documents as a site with search into dist/docs/ (needs no network after the set-up)
	@tools/setup --develop
	@PYTHONPATH=collections .venv/bin/python tools/docs_site.py

pins: ## Resolve requirements/build.in, run.in and develop.in again for each Python and write the pins
	@tools/pins

clean: ## Remove what the tools made here (not the lab: `make demo-down`)
	rm -rf .venv .venv-other .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache
