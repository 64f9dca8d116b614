# `deploy/stack.sh restore FOLDER`: a data folder takes the place of the stack's data. deploy/stack.sh sources this file.
# The new data is copied beside the old data and checked there. Then files are only renamed. While they are renamed,
# persdb cannot enter its folder, so a restore that was interrupted cannot be taken for an empty database.

# restore FOLDER: FOLDER was made by `rideshare restore`, or is a copy made by hand. The old data stays in the volume.
restore() {
  local folder id stamp archive=${ARCHIVE_URL-file:///archive} archive_volume=${ARCHIVE_VOLUME:-archive}
  [ $# = 1 ] && [ -n "$1" ] || die "restore: which data folder? make restore FROM=FOLDER"
  folder=$(cd "$OLDPWD" && realpath -e -- "$1") || die "restore: nothing was changed"
  [ "$POSTGRES" = 0 ] || die "restore: the log of $PROJECT is in PostgreSQL, where no data folder can be restored; docs/OPERATIONS.md says what can. Nothing was changed"
  idle || die "restore: $PROJECT has containers; make down removes them. Nothing was changed"
  images
  use_images
  case $archive_volume in
    archive) make_volume archive; archive_volume=${PROJECT}_archive ;;
    /*) ;; # a folder of this machine
    *) die "ARCHIVE_VOLUME is $archive_volume; allowed: archive, and the absolute path of a folder. Nothing was changed" ;;
  esac
  make_volume persdb
  note "copying $folder"
  on_data "$restore_copy" || give_up_copy "the copy failed"
  id=$(docker run --rm --network none --user 0:0 -v "${PROJECT}_persdb:/data" "$RIDESHARE_IMAGE" archive cluster /data/.restoring) ||
    give_up_copy "$folder is no data folder that can be used"
  archive=${archive%%\?*}
  case $archive in
    file:///archive | file:///archive/*) archive=${archive#file://} ;;
    '') ;;
    *) note "if the archive has positions of cluster $id, persdb ends at its start: then give ARCHIVE_URL another folder or prefix"; archive= ;;
  esac
  idle || give_up_copy "$PROJECT has containers now; make down removes them"
  on_data "$restore_close" || die "restore: the data's folder could not be closed. No file was moved; run the same command again"
  stamp=$(date -u +%Y%m%dT%H%M%S.%3NZ)
  { [ -z "$archive" ] || in_volume 65532:65532 "$archive_volume:/archive" "$restore_aside" "$id" "$stamp" "$archive"; } &&
    on_data "$restore_swap" "$stamp" ||
    die "restore: it ended in the middle. Nothing is lost; .replaced-$stamp may have old data. persdb cannot start: run the same command again"
  note "the data is that of $folder, cluster $id; make up starts it"
}

# idle succeeds if the stack has no containers.
idle() {
  local ids
  ids=$(docker ps -aq "$(ours)") && [ -z "$ids" ]
}

# give_up_copy REASON removes the copy and ends the script. A new volume is then empty again: docker gives only an empty volume the
# owner that /data has in the image.
give_up_copy() {
  on_data 'rm -rf .restoring' || die "restore: $1; the copy may be left, in .restoring of the volume ${PROJECT}_persdb"
  die "restore: $1; nothing was changed"
}

# make_volume NAME makes a volume as compose does, unless it is there. A start that fails removes only volumes that are new.
make_volume() {
  docker volume create --label "com.docker.compose.project=$PROJECT" --label "com.docker.compose.volume=$1" "${PROJECT}_$1" >/dev/null
}

# in_volume USER VOLUME:FOLDER SCRIPT ARG... runs a script in a container with the volume mounted at FOLDER, and the new data at /from.
in_volume() {
  docker run --rm --network none --user "$1" -v "$2" --mount "type=bind,dst=/from,readonly,\"src=${folder//\"/\"\"}\"" \
    --entrypoint sh "$RABBITMQ_IMAGE" -euc "$3" restore "${@:4}"
}

# on_data SCRIPT ARG... runs a script as root in the folder with the data.
on_data() { in_volume 0:0 "${PROJECT}_persdb:/data" "cd /data; $1" "${@:2}"; }

# The copy has no names that begin with a dot: such names are what earlier restores left.
restore_copy='
  [ -s /from/persdb.db ] || { echo "stack: there is no persdb.db in it" >&2; exit 1; }
  rm -rf .restoring
  mkdir .restoring
  cp -R /from/* .restoring/
  sync'

restore_close='
  chown -R 65532:65532 .restoring
  chown 0:0 .
  chmod 700 .'

# $1: the cluster id, $2: the time, $3: the folder of the archive. The archive of the cluster is moved aside: persdb refuses to start
# on data that are older than their archive. A folder of `rideshare restore` has a new id, for which there is no archive. The script
# runs as persdb's user: root may have no access to a folder on another machine.
restore_aside='
  if [ -d "$3/$1" ]; then
    mkdir -p "$3/.replaced-$2"
    mv "$3/$1" "$3/.replaced-$2/"
    echo "stack: the archive begins anew for cluster $1; what it had is in file://$3/.replaced-$2" >&2
  fi'

# $1: the time. Files that an interrupted restore has moved may be in the folder with the time of that restore.
restore_swap='
  mkdir -p .replacing
  for file in *; do
    [ ! -e "$file" ] || mv "$file" .replacing/
  done
  mv .replacing ".replaced-$1"
  mv .restoring/* .
  rmdir .restoring
  sync
  chmod 755 .
  chown 65532:65532 .
  echo "stack: the volume keeps the data of before, in" .replaced-* >&2'
