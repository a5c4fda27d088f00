#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The package $1 in a clean root: in mount, network and process namespaces of its own. A line for each
# check goes to standard output and to the file $RESULTS: `ok NAME`, `FAILED NAME` or `skipped NAME`.
# `clean_root.rs` starts it.
set -eu
deb=$1
: >"$RESULTS"
note() { echo "$*" | tee -a "$RESULTS"; }

# The machine's own root, below an overlay in memory that ends with this namespace.
mount --make-rprivate /
work=/run/ofi-xdp-clean-root
mkdir -p $work
mount -t tmpfs tmpfs $work
mkdir $work/new $work/work $work/root
mount -t overlay overlay -o lowerdir=/,upperdir=$work/new,workdir=$work/work $work/root
root=$work/root
mount -t proc proc $root/proc
mount --rbind /dev $root/dev
mount -t tmpfs tmpfs $root/run
mount -t tmpfs tmpfs $root/tmp
mount -t tmpfs tmpfs $root/var/log
cp "$deb" $root/tmp/ofi-xdp.deb
# Images of containers leave manual pages out; a provider from this tree may be installed.
rm -f $root/etc/dpkg/dpkg.cfg.d/docker $root/usr/lib/*/libfabric/libxdp-fi.so
find $work/new | sort >$work/before
ip link set lo up

# The output of a check is shown if it fails.
check() {
    name=$1
    shift
    if "$@" >$work/output 2>&1; then
        note "ok $name"
    else
        note "FAILED $name"
        sed 's/^/    /' $work/output
    fi
}
inside() { chroot $root env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
# A user without a home, a group or a capability.
as_user() {
    inside setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs --inh-caps=-all \
        --bounding-set=-all "$@"
}
# Two processes of the user, through the provider, at an address and with the variables given. They
# take half a second or more.
ping_pong() {
    address=$1
    shift
    as_user env "$@" timeout 30 fi_pingpong -p xdp -e rdm -I 100000 -S 64 &
    sleep 1
    as_user env "$@" timeout 30 fi_pingpong -p xdp -e rdm -I 100000 -S 64 "$address" && wait $!
}
# The processes that have the provider's file in memory, with the ending given.
holders() { grep -l "libxdp-fi.so$1\$" $root/proc/[0-9]*/maps | cut -d / -f 6; }
# Two processes are stopped while both have endpoints, and go on after an upgrade with the library of
# before, a file without a name now.
ping_pong_goes_on() {
    ping_pong 10.87.0.1 FI_XDP_IFACE=ofi0 FI_XDP_TIER=af_xdp &
    both=$!
    tries=0
    until test "$(inside xdp-top --json | grep -c '"interface": "ofi0"')" = 2; do
        tries=$((tries + 1))
        test $tries -lt 200 || return 1
        sleep 0.05
    done
    endpoints=$(holders '')
    kill -STOP $endpoints
    inside dpkg -i /tmp/ofi-xdp.deb || return 1
    test "$(holders ' (deleted)')" = "$endpoints" || return 1
    kill -CONT $endpoints
    wait $both
}
# A measurement of xdp-perf at a server of its own.
perf() {
    as_user xdp-perf --sessions 1 --listen $1:7471 >/dev/null 2>&1 &
    as_user xdp-perf $1 --time 200 --json | grep -q round_trips || return 1
    wait $!
}
pages() {
    for page in "7 fi_xdp" "8 xdp-broker" "1 xdp-perf" "1 xdp-run" "8 xdp-top"; do
        # shellcheck disable=SC2086
        inside man $page | grep -q NAME || return 1
    done
}
# Everything in the overlay that the machine does not have, but for dpkg's own notes.
left_behind() {
    find $work/new | sort | comm -13 $work/before - | sed "s,^$work/new,," |
        grep -v -e '^/var/lib/dpkg' -e '^/var/cache' | while read -r path; do
        test -e "$path" || echo "$path"
    done >$work/left
    cat $work/left
    test ! -s $work/left
}

if command -v lintian >/dev/null; then
    check "lintian finds no error" lintian --allow-root --fail-on error --profile debian "$deb"
else
    note "skipped lintian, which is not installed"
fi
check "the package installs" inside dpkg -i /tmp/ofi-xdp.deb
check "a user without a variable has the provider" as_user fi_info -p xdp
check "a ping-pong runs over loopback" ping_pong 127.0.0.1
check "xdp-run shows the tiers" as_user xdp-run --check
check "xdp-top runs" as_user xdp-top --json
check "xdp-perf measures over loopback" perf 127.0.0.1
if inside man --version >/dev/null 2>&1; then
    check "man finds the pages" pages
else
    note "skipped the manual pages: no man here"
fi

# The broker, started by its socket and with the power that its unit has. Raising a limit takes a
# capability that containers lack: ipc_lock stands for the unit's LimitMEMLOCK=infinity.
ip link add ofi0 type veth peer name ofi1
ip address add 10.87.0.1/24 dev ofi0
ip link set ofi0 up
ip link set ofi1 up
cp $root/etc/xdp-broker.toml $work/policy
printf '[[allow]]\nusers = [65534]\ninterfaces = ["ofi0"]\n' >$root/etc/xdp-broker.toml
mkdir -p $root/run/xdp-broker
inside setpriv --bounding-set=-all,+net_raw,+net_admin,+bpf,+ipc_lock --inh-caps=-all \
    systemd-socket-activate --listen=/run/xdp-broker/socket /usr/sbin/xdp-broker >$work/broker 2>&1 &
sleep 2
chmod 666 $root/run/xdp-broker/socket || cat $work/broker
check "a ping-pong runs beside the broker" ping_pong 10.87.0.1 FI_XDP_IFACE=ofi0 FI_XDP_TIER=af_xdp
check "the broker handed a socket out" grep 'user 65534 .* on ofi0 queue' $work/broker

check "running endpoints survive an upgrade" ping_pong_goes_on
check "an upgrade keeps the policy" grep -q 'users = \[65534\]' $root/etc/xdp-broker.toml
check "the package is purged" inside dpkg --purge ofi-xdp
check "nothing is left" left_behind
! grep -q ^FAILED "$RESULTS"
