#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# What ssh is on a cluster of machines: runs a command on the host of an address.
#     host.sh [options of ssh's, ignored] ADDRESS COMMAND...
# The hosts are network namespaces: OFI_XDP_HOSTS lists them as ADDRESS=NAMESPACE. Each gets a host
# name of its own, because launchers and MPI tell hosts apart by their names; OFI_XDP_HOSTS_FILE is
# the /etc/hosts that knows them.
set -eu
while [ "${1#-}" != "$1" ]; do shift; done
address=$1
shift
for host in $OFI_XDP_HOSTS; do
    if [ "${host%%=*}" = "$address" ]; then
        # Only this command and its children see either: the first is of its own UTS namespace, the
        # second of the mount namespace that `ip netns exec` makes.
        named="echo host${address##*.} > /proc/sys/kernel/hostname"
        known="mount --bind '$OFI_XDP_HOSTS_FILE' /etc/hosts"
        exec ip netns exec "${host#*=}" unshare --uts sh -c "$named && $known && $*"
    fi
done
echo "$0: no host $address in: $OFI_XDP_HOSTS" >&2
exit 1
