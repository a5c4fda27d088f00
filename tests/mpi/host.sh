#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# What ssh is on a cluster of machines: runs a command on the host of an address.
#     host.sh [options of ssh's, ignored] ADDRESS COMMAND...
# The hosts are network namespaces: OFI_XDP_HOSTS lists them as ADDRESS=NAMESPACE. Each gets a host
# name of its own, because launchers and MPI tell hosts apart by their names.
set -eu
while [ "${1#-}" != "$1" ]; do shift; done
address=$1
shift
for host in $OFI_XDP_HOSTS; do
    if [ "${host%%=*}" = "$address" ]; then
        named="echo host${address##*.} > /proc/sys/kernel/hostname"
        exec ip netns exec "${host#*=}" unshare --uts sh -c "$named; $*"
    fi
done
echo "$0: no host $address in: $OFI_XDP_HOSTS" >&2
exit 1
