#!/usr/bin/env bash
# Run a make target (by default `test`) as a stranger would: in a fresh clone of what is committed
# here, on this machine as it was before anybody built or installed anything for this project.
#
#     sudo tests/repository/fresh_machine.sh [TARGET]      (Linux, root: it mounts)
#
# The root file system is shown through an overlay, so that nothing outside its folder is changed.
# Hidden are this checkout, caches, /tmp and what Prometheus and Alertmanager leave in /usr and
# /etc if they are installed. pip's and apt's configuration stay. FRESH_HIDE names more folders to
# hide, with colons between them; FRESH_FOLDER is where it works, and keeps what was built.
set -euo pipefail

checkout=$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --show-toplevel)
target=${1:-test}

if [ -z "${FRESH_INSIDE:-}" ]; then
    folder=${FRESH_FOLDER:-$(mktemp -d)}
    mkdir -p "$folder"
    echo "== a fresh machine in $folder"
    git clone --quiet --no-hardlinks "$checkout" "$folder/clone"
    git -C "$folder/clone" checkout --quiet --detach "$(git -C "$checkout" rev-parse HEAD)"
    FRESH_INSIDE=1 FRESH_FOLDER=$folder \
        exec unshare --mount --propagation private --pid --fork --kill-child "$0" "$target"
fi

folder=$(realpath "$FRESH_FOLDER")
mkdir -p "$folder/root" "$folder/disk"
# Where the folder itself lies on an overlay, as in a container, what is written goes to memory.
if ! { mkdir -p "$folder/disk/upper" "$folder/disk/work" &&
    mount -t overlay -o "lowerdir=/,upperdir=$folder/disk/upper,workdir=$folder/disk/work" \
        overlay "$folder/root" 2>/dev/null; }; then
    mount -t tmpfs tmpfs "$folder/disk"
    mkdir "$folder/disk/upper" "$folder/disk/work"
    mount -t overlay -o "lowerdir=/,upperdir=$folder/disk/upper,workdir=$folder/disk/work" \
        overlay "$folder/root"
fi
root=$folder/root
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"

IFS=: read -r -a more <<<"${FRESH_HIDE:-}"
hidden=("$checkout" /tmp /var/tmp /root/.cache "$HOME/.cache"
    /usr/share/prometheus /etc/prometheus /var/lib/prometheus "${more[@]}")
for path in "${hidden[@]}"; do
    if [ -n "$path" ] && [ "$path" != / ] && [ -d "$root$path" ]; then
        mount -t tmpfs -o mode=1777 tmpfs "$root$path"
    fi
done
for program in prometheus promtool amtool prometheus-alertmanager alertmanager; do
    rm -f "$root"/usr/bin/$program "$root"/usr/local/bin/$program
done

mkdir -p "$root/srv/latencytrace"
mount --bind "$folder/clone" "$root/srv/latencytrace"
# Variables that a stranger's shell has, and pip's: where packages come from.
kept=(PATH="$PATH" HOME="$HOME" LANG="${LANG:-C.UTF-8}" TERM="${TERM:-dumb}")
while IFS= read -r variable; do kept+=("$variable"); done < <(
    env | grep -E '^(PIP_|[a-zA-Z]+_proxy=|[A-Z]+_PROXY=|SSL_CERT_)' || true)
exec chroot "$root" /usr/bin/env -i "${kept[@]}" \
    /bin/sh -c 'cd /srv/latencytrace && exec make "$1"' sh "$target"
