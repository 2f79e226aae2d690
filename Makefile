# SPDX-License-Identifier: MIT
#
# The front door. CMake and its presets are the truth; these are the commands that people type.

MODEL ?= models/demo.gguf
PREFIX ?= /usr/local
BUILD := build/release

.DEFAULT_GOAL := help
.PHONY: help demo build test bench install format clean

help:
	@sed -n 's/^## //p' Makefile

## weft: language-model inference in C
##
##   make demo      build, then write a story with the demo model and answer a question about it
##   make test      prove everything: every build, every test, every check (twenty minutes on 2 cores)
##   make build     install what is missing, configure and build into build/release
##   make bench     measure this machine's ceilings and the kernels against them
##   make install   install library, headers, weft and weft-check below PREFIX (default /usr/local)
##   make format    format every C source
##   make clean     remove build/
##
## The program afterwards: build/release/weft --help
## Your own model:         build/release/weft run FILE.gguf -p "Once upon a time"

build:
	@scripts/install-deps
	@scripts/build release

demo: build
	@scripts/demo $(BUILD)/weft $(MODEL)

test:
	@scripts/test

bench: build
	@scripts/bench $(BUILD)/weft

install: build
	@cmake --install $(BUILD) --prefix $(PREFIX)

format:
	@scripts/install-deps --format
	@scripts/format

clean:
	rm -rf build
