package testenv

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"rideshare/bench/startedservices"
)

// probeTimeout limits the check whether a service answers.
const probeTimeout = 10 * time.Second

// RabbitMQ returns the URL of the RabbitMQ that tests share, once it has answered. Tests must use names of their own
// on it and must not break it; StartRabbitMQ starts a RabbitMQ that a test may break.
//
// The URL comes from the variable RABBITMQ_URL, or is that of the RabbitMQ started by `make services`. If there is no
// answer, the test fails if the variable or CI is set; otherwise it is skipped with a visible message, because a skipped
// test is a gap in the run.
func RabbitMQ(tb testing.TB) string {
	tb.Helper()
	return shared(tb, "RABBITMQ_URL", answersAMQP)
}

// ZooKeeper returns the URL of the ZooKeeper that tests share, from the variable
// ZOOKEEPER_URL or `make services`, as RabbitMQ does.
func ZooKeeper(tb testing.TB) string {
	tb.Helper()
	return shared(tb, "ZOOKEEPER_URL", answersZooKeeper)
}

// SharedPostgres returns the URL of the PostgreSQL that tests share, and the file with the password of its user, from
// the variables POSTGRES_URL and POSTGRES_PASSWORD_FILE or `make services`, as RabbitMQ does. The first host in the URL
// is the primary.
func SharedPostgres(tb testing.TB) (address, passwordFile string) {
	tb.Helper()
	address = shared(tb, "POSTGRES_URL", answersPostgres)
	passwordFile, set := os.LookupEnv("POSTGRES_PASSWORD_FILE")
	if !set {
		passwordFile, _ = startedservices.Shared("POSTGRES_PASSWORD_FILE") // without one the server asks for no password.
	}
	return address, passwordFile
}

// shared returns the URL in a variable, once the service there has answered.
func shared(tb testing.TB, variable string, answers func(context.Context, string) error) string {
	tb.Helper()
	address, set := os.LookupEnv(variable)
	if !set {
		var err error
		if address, err = startedservices.Shared(variable); err != nil {
			missing(tb, variable, fmt.Errorf("not set, and %w", err))
		}
	}
	ctx, cancel := context.WithTimeout(tb.Context(), probeTimeout)
	defer cancel()
	if err := contact(ctx, address, answers); err != nil {
		missing(tb, variable, err)
	}
	return address
}

// missing ends a test whose service does not answer.
func missing(tb testing.TB, variable string, err error) {
	tb.Helper()
	_, set := os.LookupEnv(variable)
	Cannot(tb, set, "no service: %s: %v (`make services` starts one)", variable, err)
}

// Cannot ends a test that cannot run. The test fails in CI or if wanted is set; otherwise it is skipped with a
// visible message.
func Cannot(tb testing.TB, wanted bool, format string, args ...any) {
	tb.Helper()
	if wanted || os.Getenv("CI") != "" {
		tb.Fatalf(format, args...)
	}
	tb.Skipf("NOT TESTED, "+format, args...)
}

// contact connects to the first host of a URL and checks whether the service answers.
func contact(ctx context.Context, address string, answers func(context.Context, string) error) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("parse the URL: %w", err)
	}
	host, _, _ := strings.Cut(u.Host, ",")
	if err = answers(ctx, host); err != nil {
		return fmt.Errorf("no answer from %s: %w", host, err)
	}
	return nil
}

// answersAMQP sends the protocol header. A broker that is ready replies with a method frame, which begins with 1.
func answersAMQP(ctx context.Context, host string) error {
	answer, err := ask(ctx, host, "AMQP\x00\x00\x09\x01")
	if err != nil {
		return err
	}
	defer func() { _ = answer.Close() }()
	first := make([]byte, 1)
	if _, err = io.ReadFull(answer, first); err != nil {
		return fmt.Errorf("read the first frame: %w", err)
	}
	if first[0] != 1 {
		return fmt.Errorf("got first byte %d, want 1", first[0])
	}
	return nil
}

// answersZooKeeper asks for the mode, which only a serving ZooKeeper has.
func answersZooKeeper(ctx context.Context, host string) error {
	answer, err := ask(ctx, host, "srvr")
	if err != nil {
		return err
	}
	defer func() { _ = answer.Close() }()
	lines := bufio.NewScanner(answer)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "Mode:") {
			return nil
		}
	}
	return errors.Join(errors.New("it does not serve"), lines.Err())
}

// ask sends a question. The caller reads the answer and closes the connection. Reads fail after the deadline of ctx.
func ask(ctx context.Context, host, question string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if deadline, ok := ctx.Deadline(); ok {
		err = conn.SetDeadline(deadline)
	}
	if err == nil {
		_, err = io.WriteString(conn, question)
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("ask: %w", err)
	}
	return conn, nil
}

// answersPostgres asks whether the server has TLS, which only a PostgreSQL answers, with a letter.
func answersPostgres(ctx context.Context, host string) error {
	answer, err := ask(ctx, host, "\x00\x00\x00\x08\x04\xd2\x16\x2f")
	if err != nil {
		return err
	}
	defer func() { _ = answer.Close() }()
	first := make([]byte, 1)
	if _, err = io.ReadFull(answer, first); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if first[0] != 'S' && first[0] != 'N' {
		return fmt.Errorf("got %q, want S or N", first)
	}
	return nil
}
