# What POSTGRES=1 adds to the stack: the log in PostgreSQL, with a synchronous standby. deploy/stack.sh sources this file.

# choose_postgres chooses where the log is. A stack keeps the place of its first start.
choose_postgres() {
  : "${POSTGRES:=$(cat "$STACK_DIR/postgres" 2>/dev/null || echo 0)}"
  case $POSTGRES in 0 | 1) ;; *) die "POSTGRES is $POSTGRES; allowed: 0, 1" ;; esac
  export POSTGRES STACK_LOG=file STACK_LOG_PASSWORD_FILE=
  [ "$POSTGRES" = 0 ] || STACK_LOG=postgres://rideshare@postgres1:5432,postgres2:5432/rideshare STACK_LOG_PASSWORD_FILE=/run/secrets/postgres-log
}

# check_postgres VOLUMES ends the script if the stack, which has these volumes, keeps its log elsewhere: no command moves a log. It
# chooses the server that may create the database. If only postgres2 has a volume, postgres1's data are lost, and the server is
# postgres2: postgres1 must not create an empty database beside it.
check_postgres() {
  local kept=$POSTGRES
  [ -z "$1" ] || kept=$(cat "$STACK_DIR/postgres" 2>/dev/null || echo 0)
  [ "$kept" = "$POSTGRES" ] ||
    die "the log of $PROJECT was begun with POSTGRES=$kept and cannot be moved; nothing was started. Another PROJECT, or make down VOLUMES=1, begins anew"
  [ "$POSTGRES" = 0 ] || [ -z "$1" ] || { [ -s "$STACK_SECRETS/postgres-superuser" ] && [ -s "$STACK_SECRETS/postgres-log" ]; } ||
    die "the database of $PROJECT has the passwords that were in $STACK_SECRETS/postgres-superuser and postgres-log; put these files back. Nothing was started"
  echo "$POSTGRES" >"$STACK_DIR/postgres"
  export POSTGRES_FIRST=postgres1
  case $'\n'$1$'\n' in *$'\n'"${PROJECT}_postgres1"$'\n'*) ;; *$'\n'"${PROJECT}_postgres2"$'\n'*) POSTGRES_FIRST=postgres2 ;; esac
}
