#!/usr/bin/env bash
# Installs what building or testing Shardonnay needs and this machine lacks, from Debian's packages; says what it
# installs, and nothing where nothing is missing.
#
#   scripts/install-deps.sh [build] [test] [image]     default: build test
#
# build: a C and a C++ compiler, pkg-config, CLP and zlib with their development files.
# test:  a JDK of 17 or newer and Maven for the real clusters, Prometheus, HAProxy, Chromium for the page. A JDK of 21 or newer,
#        which OpenSearch 3 and Elasticsearch 9 need, is only looked for: this Debian may not have one.
# image: debootstrap, for the folder that the image is built in where there is no container engine.
set -euo pipefail

say() { printf 'install-deps: %s\n' "$*" >&2; }

has() { command -v "$1" >/dev/null 2>&1; }

# jdk_at_least VERSION: is there a JDK of that feature version or newer where the tests look for one?
jdk_at_least() {
  local home version path_home=
  if has javac; then
    path_home=$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")
  fi
  for home in "${JAVA21_HOME:-}" "${JAVA_HOME:-}" "$path_home" /usr/lib/jvm/*; do
    [[ -n $home && -x $home/bin/javac && -r $home/release ]] || continue
    version=$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$home/release")
    if [[ ${version:-0} -ge $1 ]]; then
      return 0
    fi
  done
  return 1
}

# as_root COMMAND...: run it as root, by sudo where needed.
as_root() {
  if [[ $(id -u) -eq 0 ]]; then
    "$@"
  elif has sudo; then
    sudo "$@"
  else
    say "installing needs root, and there is no sudo"
    return 1
  fi
}

policy=/usr/sbin/policy-rc.d # asked by every package before it starts a service; 101 means no
forbid_services() {
  [[ -e $policy ]] && return
  trap 'as_root rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
  as_root chmod 755 "$policy"
}

packages=()
[[ $# -gt 0 ]] || set -- build test
for group in "$@"; do
  case $group in
    build)
      { has gcc && has g++; } || packages+=(gcc g++ libc6-dev)
      has pkg-config || packages+=(pkg-config)
      { has pkg-config && pkg-config --exists clp zlib; } || packages+=(coinor-libclp-dev zlib1g-dev)
      ;;
    test)
      jdk_at_least 17 || packages+=(openjdk-17-jdk-headless)
      has mvn || packages+=(maven)
      { has prometheus && has promtool; } || packages+=(prometheus)
      has haproxy || packages+=(haproxy)
      has chromium || packages+=(chromium fonts-liberation)
      ;;
    image)
      has debootstrap || packages+=(debootstrap)
      ;;
    *)
      say "unknown group $group; known are: build test image"
      exit 2
      ;;
  esac
done

if [[ ${#packages[@]} -gt 0 ]]; then
  if ! has apt-get; then
    say "missing: ${packages[*]} (names of Debian packages). Install them with this system's own package manager"
    exit 1
  fi
  say "installing ${packages[*]}"
  quiet=(-qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300)
  forbid_services
  as_root apt-get "${quiet[@]}" update
  as_root env DEBIAN_FRONTEND=noninteractive apt-get "${quiet[@]}" install -y --no-install-recommends "${packages[@]}" >/dev/null
  for service in prometheus haproxy; do
    if [[ " ${packages[*]} " == *" $service "* ]] && has systemctl; then
      # Tests start a server of their own: the system's is to start neither now nor at the next boot.
      as_root systemctl --quiet disable "$service.service" || say "could not disable the $service service; it may start at the next boot"
    fi
  done
  say "installed ${packages[*]}"
fi

if [[ " $* " == *" test "* ]] && ! jdk_at_least 21; then
  say "no JDK 21 or newer in JAVA21_HOME or /usr/lib/jvm: OpenSearch 3.9.0 and Elasticsearch 9.5.3 will NOT be tested"
fi
