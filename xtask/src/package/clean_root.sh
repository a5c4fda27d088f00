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
mount -t tmpfs tmpfs $root/var/tmp
cp "$deb" $root/tmp/ofi-xdp_0.deb
# The person who types the commands of the documents says yes.
echo 'APT::Get::Assume-Yes "yes";' >$root/etc/apt/apt.conf.d/yes
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
# The blocks of commands in docs/install.md with the mark given.
documented() {
    awk -v fence="\`\`\`sh $1" '$0 == fence { on = 1; next } /^```/ { on = 0 } on' \
        "$INSTALL_DOCUMENT" >$work/commands
    test -s $work/commands && inside sh -euc "cd /tmp; $(cat $work/commands)"
}
# Two processes of the user, through the provider, at an address and with the variables given. They
# take half a second or more.
ping_pong() {
    address=$1
    shift
    as_user env "$@" timeout 60 fi_pingpong -p xdp -e rdm -I 100000 -S 64 &
    sleep 1
    as_user env "$@" timeout 60 fi_pingpong -p xdp -e rdm -I 100000 -S 64 "$address" && wait $!
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
    inside dpkg -i /tmp/ofi-xdp_0.deb || return 1
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
# Programs of the package on a processor of 2008, which has no AVX.
nehalem() { as_user timeout 60 qemu-x86_64 -cpu Nehalem "$@"; }
old_processor() {
    program='int main(void) { __asm__("vpaddd %ymm0,%ymm0,%ymm0"); }'
    echo "$program" | cc -xc -o $root/tmp/avx2 - || return 1
    # The emulator refuses instructions that the processor does not have.
    inside qemu-x86_64 -cpu Haswell /tmp/avx2 || return 1
    ! nehalem /tmp/avx2 || return 1
    nehalem /usr/bin/xdp-run --version || return 1
    nehalem /usr/bin/fi_pingpong -p xdp -e rdm -I 1000 -S 1024 &
    sleep 2
    nehalem /usr/bin/fi_pingpong -p xdp -e rdm -I 1000 -S 1024 127.0.0.1 && wait $!
}
# A unit's exposure is at most this, in tenths; 100 is the worst.
exposure() { inside systemd-analyze security --offline=true --no-pager --threshold="$1" "$2"; }
# A unit without a setting is too exposed.
unsafe_unit() {
    printf '[Service]\nExecStart=/bin/true\n' >$root/tmp/unsafe.service
    ! exposure 20 /tmp/unsafe.service
}
# The broker with all of its unit: systemd is process 1 of namespaces and a control group of its own.
# It starts a ping-pong of a user, for which the socket starts the broker, and ends with it. ipc_lock
# stands for LimitMEMLOCK=infinity, as below.
under_systemd() {
    units=$root/run/systemd/system
    for unit in socket service; do
        mkdir -p $units/xdp-broker.$unit.d
        printf '[Unit]\nDefaultDependencies=no\n' >$units/xdp-broker.$unit.d/alone.conf
    done
    cat >>$units/xdp-broker.service.d/alone.conf <<-'UNIT'
		[Service]
		CapabilityBoundingSet=CAP_IPC_LOCK
		StandardError=append:/run/broker
	UNIT
    cat >$units/try.service <<-'UNIT'
		[Unit]
		DefaultDependencies=no
		Requires=xdp-broker.socket
		After=xdp-broker.socket
		SuccessAction=exit
		FailureAction=exit
		[Service]
		Type=oneshot
		User=65534
		CapabilityBoundingSet=
		NoNewPrivileges=yes
		TimeoutStartSec=60
		StandardOutput=append:/run/try
		StandardError=inherit
		Environment=FI_XDP_IFACE=ofi0 FI_XDP_TIER=af_xdp
		Environment="RUN=fi_pingpong -p xdp -e rdm -I 10000 -S 64"
		ExecStart=sh -c 'set -e; $$RUN & sleep 1; $$RUN 10.87.0.1; wait $$!'
		ExecStart=+sh -c 'cat /proc/$$(pidof xdp-broker)/status'
	UNIT
    mkdir -p $work/cgroup
    mount -t cgroup2 cgroup2 $work/cgroup || return 1
    mkdir -p $work/cgroup/ofi-xdp-packages
    timeout 90 sh -c "echo \$\$ >$work/cgroup/ofi-xdp-packages/cgroup.procs
        exec unshare --pid --fork --kill-child --mount --cgroup sh -c '
            mount -t proc proc $root/proc
            mount -t sysfs sysfs $root/sys
            mount -t cgroup2 cgroup2 $root/sys/fs/cgroup
            exec chroot $root env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=ofi-xdp \
                /lib/systemd/systemd --unit=try.service --log-target=console --show-status=no'"
    ended=$?
    find $work/cgroup/ofi-xdp-packages -depth -type d -exec rmdir {} +
    umount $work/cgroup
    cat $root/run/try $root/run/broker
    test $ended = 0 && grep -q 'user 65534 .* on ofi0 queue' $root/run/broker &&
        grep -q '^Seccomp:.*2$' $root/run/try && grep -q '^NoNewPrivs:.*1$' $root/run/try
}
clean() { lintian --allow-root --fail-on error --profile debian "$1"; }
# A package with nothing in it: no changelog, no copyright.
bare_package() {
    mkdir -p $work/bare/DEBIAN
    printf '%s\n' 'Package: bare' 'Version: 1' 'Architecture: all' 'Maintainer: a <a@example.org>' \
        'Description: bare' >$work/bare/DEBIAN/control
    dpkg-deb --build $work/bare $work/bare.deb && ! clean $work/bare.deb
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
        grep -v -e '^/var/lib/dpkg' -e '^/var/lib/apt' -e '^/var/cache' | while read -r path; do
        test -e "$path" || echo "$path"
    done >$work/left
    cat $work/left
    test ! -s $work/left
}

if command -v lintian >/dev/null; then
    check "lintian finds no error" clean "$deb"
    check "lintian finds errors in a bare package" bare_package
else
    note "skipped lintian, which is not installed"
fi
check "the package installs as docs/install.md says" documented installs
check "a user without a variable has the provider" as_user fi_info -p xdp
check "a ping-pong runs over loopback" ping_pong 127.0.0.1
check "xdp-run shows the tiers" as_user xdp-run --check
check "xdp-top runs" as_user xdp-top --json
check "xdp-perf measures over loopback" perf 127.0.0.1
if command -v qemu-x86_64 >/dev/null; then
    check "programs need no AVX" old_processor
else
    note "skipped the emulated processor: no qemu-x86_64 here"
fi
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
check "the broker's unit is hardened (2.0 at most)" exposure 20 /lib/systemd/system/xdp-broker.service
check "xdp-top's unit is hardened (1.1 at most)" exposure 11 /lib/systemd/system/xdp-top.service
check "the check of exposure can fail" unsafe_unit
check "the broker works with all of its unit" under_systemd
rm -rf $root/run/systemd $root/run/xdp-broker

mkdir -p $root/run/xdp-broker
inside setpriv --bounding-set=-all,+net_raw,+net_admin,+bpf,+ipc_lock --inh-caps=-all \
    systemd-socket-activate --listen=/run/xdp-broker/socket /usr/sbin/xdp-broker >$work/broker 2>&1 &
sleep 2
chmod 666 $root/run/xdp-broker/socket || cat $work/broker
check "a ping-pong runs beside the broker" ping_pong 10.87.0.1 FI_XDP_IFACE=ofi0 FI_XDP_TIER=af_xdp
check "the broker handed a socket out" grep 'user 65534 .* on ofi0 queue' $work/broker

check "running endpoints survive an upgrade" ping_pong_goes_on
check "an upgrade keeps the policy" grep -q 'users = \[65534\]' $root/etc/xdp-broker.toml
check "the package is purged as docs/install.md says" documented removes
check "nothing is left" left_behind
! grep -q ^FAILED "$RESULTS"
