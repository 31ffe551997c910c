#!/bin/bash
# machine.sh DIRECTORY GROUP: boots systemd on a copy of this machine's files that is thrown away with it, in namespaces of its own:
# what happens there, happens there alone. DIRECTORY is empty; GROUP is a cgroup (version 2) of its own. Run by machine.py.
set -euo pipefail
directory=$1
if [ "${3:-}" != inside ]; then
    # Its root is what systemd will take for the root of all groups.
    echo $$ >"$2/cgroup.procs"
    exec unshare --mount --pid --fork --kill-child --uts --ipc --net --cgroup bash "$0" "$directory" "$2" inside
fi

mount --make-rprivate /
mount -t tmpfs -o mode=0755 tmpfs "$directory"
mkdir "$directory/upper" "$directory/work" "$directory/root"
mount -t overlay -o "lowerdir=/,upperdir=$directory/upper,workdir=$directory/work" overlay "$directory/root"
cd "$directory/root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=0755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs -o mode=0755 tmpfs dev
for device in null zero full random urandom tty; do
    touch "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
# None of the services that this machine has.
rm -rf etc/systemd/system
# Images that machines like this one are made from forbid packages to start and stop services (policy-rc.d).
rm -f usr/sbin/policy-rc.d
mkdir -p etc/systemd/system run/outside
pivot_root . run/outside
# Out of the old root: this shell is systemd's last trace of it.
exec chroot . /bin/bash -c 'umount -l /run/outside && rmdir /run/outside && exec env -i container=test \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin SWIFT_BACKTRACE=enable=no /usr/lib/systemd/systemd --system --unit=basic.target --show-status=no'
