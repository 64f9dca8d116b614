# `deploy/stack.sh restore FOLDER`: a data folder takes the place of the stack's data. deploy/stack.sh reads this file.
# The new data is copied beside the old data and checked there. Then files are only renamed. While they are renamed,
# persdb cannot enter its folder, so a restore that was interrupted cannot be taken for an empty database.

# restore FOLDER: FOLDER is what `rideshare restore` made, or a copy made by hand. The old data stays in the volume.
restore() {
  local folder running id stamp archive=${ARCHIVE_URL-file:///archive} archive_volume=${ARCHIVE_VOLUME:-archive}
  [ $# = 1 ] && [ -n "$1" ] || die "restore: which data folder? make restore FROM=FOLDER"
  folder=$(cd "$OLDPWD" && realpath -e -- "$1") || die "restore: nothing was changed"
  [ "$POSTGRES" = 0 ] || die "restore: the log of $PROJECT is in PostgreSQL, where no data folder can be restored; docs/OPERATIONS.md says what can. Nothing was changed"
  running=$(docker ps -aq "$(ours)")
  [ -z "$running" ] || die "restore: $PROJECT has containers; make down removes them. Nothing was changed"
  images
  use_images
  make_volume persdb
  case $archive_volume in
    /*) ;; # a folder of this machine
    *) make_volume "$archive_volume"; archive_volume=${PROJECT}_$archive_volume ;;
  esac
  note "copying $folder"
  in_volumes "$restore_copy" || die "restore: the copy failed; nothing was changed"
  id=$(docker run --rm --network none --user 0:0 -v "${PROJECT}_persdb:/data" "$RIDESHARE_IMAGE" archive cluster /data/.restoring) ||
    die "restore: $folder is no data folder that can be used; nothing was changed"
  stamp=$(date -u +%Y%m%dT%H%M%S.%3NZ)
  archive=${archive%%\?*}
  case $archive in
    file:///archive | file:///archive/*) archive=${archive#file://} ;;
    '') ;;
    *) note "if the archive has positions of cluster $id, persdb ends at its start: then give ARCHIVE_URL another folder or prefix"; archive= ;;
  esac
  in_volumes "$restore_swap" "$id" "$stamp" "$archive" ||
    die "restore: it ended in the middle. Nothing is lost, and persdb cannot start: run the same command again"
  note "the data is that of $folder, cluster $id; make up starts it. The data of before is in .replaced-$stamp of the volume ${PROJECT}_persdb"
}

# make_volume NAME makes a volume as compose does, unless it is there. A start that fails removes only volumes that are new.
make_volume() {
  docker volume create --label "com.docker.compose.project=$PROJECT" --label "com.docker.compose.volume=$1" "${PROJECT}_$1" >/dev/null
}

# in_volumes SCRIPT ARG... runs a script as root, in a container that has the volumes and the folder.
in_volumes() {
  docker run --rm --network none --user 0:0 -v "${PROJECT}_persdb:/data" -v "$archive_volume:/archive" -v "$folder:/from:ro" \
    --entrypoint sh "$RABBITMQ_IMAGE" -euc "cd /data; $1" restore "${@:2}"
}

# The copy has no names with a dot: these are what earlier restores left.
restore_copy='
  [ -s /from/persdb.db ] || { echo "stack: there is no persdb.db in it" >&2; exit 1; }
  rm -rf .restoring
  mkdir .restoring
  cp -R /from/* .restoring/
  sync'

# $1: the cluster id, $2: the time, $3: the folder of the archive, or nothing. What the archive has of the cluster has to go
# aside: persdb refuses to start on a copy that is older. A folder of `rideshare restore` has a new id, which no archive has.
restore_swap='
  chown 0:0 .
  chmod 700 .
  chown -R 65532:65532 .restoring
  if [ -n "$3" ] && [ -d "$3/$1" ]; then
    mkdir -p "$3/.replaced-$2"
    mv "$3/$1" "$3/.replaced-$2/"
    chown 65532:65532 "$3/.replaced-$2"
    echo "stack: the archive begins anew for cluster $1; what it had is in ${3#/archive}/.replaced-$2 of its volume" >&2
  fi
  mkdir -p .replacing
  for file in *; do
    [ ! -e "$file" ] || mv "$file" .replacing/
  done
  mv .replacing ".replaced-$2"
  mv .restoring/* .
  rmdir .restoring
  sync
  chmod 755 .
  chown 65532:65532 .'
