# The commands that a contributor uses. Each is one line that also works without just.

# lists the recipes
default:
    @just --list

# formatting, lints, tests, documentation
test:
    ./test

# the long tests too
test-all:
    ./test --all

# the tests whose names contain a word: just one resumes
one NAME:
    cargo nextest run --workspace {{NAME}}

# format and lints only
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings

# the demo, on a small built-in web
demo:
    cargo run --release -- demo

# instruction counts of the hot paths (needs valgrind)
guards:
    bench/guards

# lines of product code
lines:
    bench/lines

# one fuzz target for a minute (needs a nightly toolchain and cargo-fuzz)
fuzz TARGET:
    cargo +nightly fuzz run {{TARGET}} -- -max_total_time=60

# the book, in the folder book
book:
    mdbook build
