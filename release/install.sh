#!/bin/sh
# Installs the command `argiope` for x86-64 Linux: fetches the release and its checksums, verifies them, and copies
# binary, man pages and completions.
#
#   sh install.sh                          the newest release, to ~/.local
#   sh install.sh --version 0.1.0 --to DIR another release or folder
#   sh install.sh --attested FLAG VALUE    also asks `gh attestation verify` who built the archive, with this flag
#
# ARGIOPE_RELEASES is the address of the releases, for a mirror. Exit code 3: this platform has no binary.
set -eu

releases=${ARGIOPE_RELEASES:-https://github.com/argiope-crawler/argiope/releases}
version=latest
to=$HOME/.local
attested=
repository=argiope-crawler/argiope

fail() { echo "install.sh: $*" >&2; exit 1; }

while [ $# -gt 0 ]; do
  case $1 in
    --version) [ $# -ge 2 ] || fail "--version needs a value"; version=${2#v}; shift 2 ;;
    --to) [ $# -ge 2 ] || fail "--to needs a folder"; to=$2; shift 2 ;;
    --attested) [ $# -ge 3 ] || fail "--attested needs a flag and a value"; attested=$2=$3; shift 3 ;;
    *) fail "unknown argument $1; usage: install.sh [--version VERSION] [--to FOLDER] [--attested FLAG VALUE]" ;;
  esac
done

if [ "$(uname -s)-$(uname -m)" != Linux-x86_64 ]; then
  echo "install.sh: there is no binary for $(uname -s) on $(uname -m); build it with: cargo install argiope-cli" >&2
  exit 3
fi
if command -v curl >/dev/null 2>&1; then
  # A redirect from https to http is refused.
  case $releases in https:*) protocol='=https' ;; *) protocol='=http,https' ;; esac
  get() { curl --fail --silent --show-error --location --proto "$protocol" --proto-redir "$protocol" --output "$2" "$1"; }
elif command -v wget >/dev/null 2>&1; then
  get() { wget -q -O "$2" "$1"; }
else
  fail "curl or wget is needed"
fi
command -v sha256sum >/dev/null 2>&1 || fail "sha256sum is needed"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
if [ "$version" = latest ]; then from=$releases/latest/download; else from=$releases/download/v$version; fi

get "$from/SHA256SUMS" "$folder/SHA256SUMS" || fail "cannot fetch $from/SHA256SUMS"
line=$(grep -E '^[0-9a-f]{64}  argiope-[0-9A-Za-z.-]+-x86_64-linux\.tar\.gz$' "$folder/SHA256SUMS") ||
  fail "SHA256SUMS names no archive for x86-64 Linux"
[ "$(printf '%s\n' "$line" | wc -l)" -eq 1 ] || fail "SHA256SUMS names several archives for x86-64 Linux"
archive=${line#*  }
[ "$version" = latest ] || [ "$archive" = "argiope-$version-x86_64-linux.tar.gz" ] ||
  fail "the release $version has the archive of another version: $archive"
get "$from/$archive" "$folder/$archive" || fail "cannot fetch $from/$archive"
(cd "$folder" && printf '%s\n' "$line" | sha256sum --check --status) ||
  fail "the checksum of $archive is wrong; nothing was installed"
if [ -n "$attested" ]; then
  gh attestation verify "$folder/$archive" --repo "$repository" "$attested" >/dev/null ||
    fail "$archive has no attestation with $attested; nothing was installed"
fi

tar -xzf "$folder/$archive" -C "$folder"
unpacked=$folder/${archive%.tar.gz}
"$unpacked/argiope" --version >/dev/null || fail "the binary does not run on this machine; nothing was installed"
mkdir -p "$to/bin" "$to/share/man/man1" "$to/share/bash-completion/completions" "$to/share/zsh/site-functions" \
  "$to/share/fish/vendor_completions.d"
cp "$unpacked"/man/*.1 "$to/share/man/man1/"
cp "$unpacked/completions/argiope.bash" "$to/share/bash-completion/completions/argiope"
cp "$unpacked/completions/argiope.zsh" "$to/share/zsh/site-functions/_argiope"
cp "$unpacked/completions/argiope.fish" "$to/share/fish/vendor_completions.d/argiope.fish"
# A rename replaces a running binary safely.
cp "$unpacked/argiope" "$to/bin/.argiope.new"
mv "$to/bin/.argiope.new" "$to/bin/argiope"
echo "installed $("$to/bin/argiope" --version | head -1) in $to/bin"
case :$PATH: in *":$to/bin:"*) ;; *) echo "add $to/bin to your PATH" ;; esac
