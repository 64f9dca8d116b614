# What OBSERVE=1 adds to the stack: Prometheus, and Grafana if its image can be had. deploy/stack.sh sources this file.

choose_observe() {
  : "${OBSERVE:=0}" "${PROMETHEUS_PORT:=9090}" "${GRAFANA_PORT:=3000}"
  case $OBSERVE in 0 | 1) ;; *) die "OBSERVE is $OBSERVE; allowed: 0, 1" ;; esac
  export OBSERVE PROMETHEUS_PORT GRAFANA_PORT STACK_PROMETHEUS=$STACK_DIR/prometheus
}

# has PROFILE succeeds if deploy/images.sh has chosen an image for that profile, observe or grafana.
has() { [[ ,${COMPOSE_PROFILES:-}, == *,$1,* ]]; }

# write_prometheus writes the configuration and the rules to the folder that the container reads. If they change, compose replaces
# the container. Prometheus presents the certificate that all parts use. It does not check the certificates of the parts: these name
# the hosts of the published ports, and the networks between Prometheus and the parts belong to the stack.
write_prometheus() {
  local tls='{cert_file: /run/tls/cert.pem, key_file: /run/tls/key.pem, insecure_skip_verify: true}' change=
  has observe || return 0
  [ "$STACK_SCHEME" = http ] || change="s|^    scheme: http\$|    scheme: https\n    tls_config: $tls|"
  mkdir -p "$STACK_PROMETHEUS"
  cp deploy/prometheus/alerts.yml deploy/prometheus/recording.yml "$STACK_PROMETHEUS"
  sed -e "$change" deploy/prometheus/prometheus.yml >"$STACK_PROMETHEUS/prometheus.yml"
  chmod -R a+rX "$STACK_PROMETHEUS"
  PROMETHEUS_CONFIG=$(checksum "$STACK_PROMETHEUS"/*.yml)
  export PROMETHEUS_CONFIG
}

# drop_observers removes Prometheus and Grafana of an earlier start with OBSERVE=1. Their data stay.
drop_observers() {
  local service ids
  ! has observe || return 0
  for service in prometheus grafana; do
    ids=$(docker ps -aq "$(ours)" --filter "label=com.docker.compose.service=$service")
    # shellcheck disable=SC2086 # a list of ids
    [ -z "$ids" ] || docker rm -f $ids >/dev/null
  done
}

greet_observers() {
  ! has observe || echo "  prometheus    http://127.0.0.1:$PROMETHEUS_PORT"
  ! has grafana || echo "  grafana       http://127.0.0.1:$GRAFANA_PORT"
}
