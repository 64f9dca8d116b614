package admission

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"rideshare/internal/dbaas"
)

// Class is the kind of a request. Each class has its own limits.
type Class int

// The classes. Async is a write whose client does not wait for the result.
const (
	Read Class = iota
	Write
	Async
	classes int = iota
)

var classNames = [...]string{Read: "read", Write: "write", Async: "async"}

func (c Class) String() string { return classNames[c] }

// Limit is the settings of a token bucket. The zero value limits nothing.
type Limit struct {
	Rate    float64 // tokens a second
	Burst   int     // tokens in a full bucket
	Initial int     // tokens at the start
}

var namedLimits = map[string]Limit{
	"steady-5000": {Rate: 5000, Burst: 5000, Initial: 5000},
	"flash-1000":  {Rate: 1000, Burst: 500_000, Initial: 50_000},
}

// ParseLimit reads none, steady-5000, flash-1000, RATE:BURST or RATE:BURST:INITIAL. Without INITIAL the bucket starts
// full.
func ParseLimit(text string) (Limit, error) {
	if text == None || text == "" {
		return Limit{}, nil
	}
	if l, ok := namedLimits[text]; ok {
		return l, nil
	}
	wrong := fmt.Errorf("%q is no limit: none, steady-5000, flash-1000, or RATE:BURST or RATE:BURST:INITIAL, with a rate above 0, a burst of at least 1, and an initial level of at most the burst", text)
	parts := strings.Split(text, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return Limit{}, wrong
	}
	perSecond, err := strconv.ParseFloat(parts[0], 64)
	if err != nil || !(perSecond > 0 && perSecond <= math.MaxInt32) {
		return Limit{}, wrong
	}
	burst, err := strconv.Atoi(parts[1])
	if err != nil || burst < 1 || burst > math.MaxInt32 {
		return Limit{}, wrong
	}
	l := Limit{Rate: perSecond, Burst: burst, Initial: burst}
	if len(parts) == 3 {
		if l.Initial, err = strconv.Atoi(parts[2]); err != nil || l.Initial < 0 || l.Initial > burst {
			return Limit{}, wrong
		}
	}
	return l, nil
}

// bucket is a token bucket. A nil bucket limits nothing. The caller serialises the calls, and now must never decrease.
type bucket struct {
	limit  Limit // as configured
	shared bool  // only this orchestrator's share of the limit counts
	tokens *rate.Limiter
}

func newBucket(l Limit, now time.Time) *bucket {
	b := &bucket{limit: l, tokens: rate.NewLimiter(rate.Limit(l.Rate), l.Burst)}
	b.set(l.Initial, now)
	return b
}

// set sets the number of tokens to level, or to the burst if that is smaller.
func (b *bucket) set(level int, now time.Time) {
	limit, burst := b.tokens.Limit(), b.tokens.Burst()
	b.tokens = rate.NewLimiter(limit, burst)
	b.tokens.AllowN(now, burst-min(level, burst))
}

// share limits the bucket to a part of its limit, in [0, 1].
func (b *bucket) share(part float64, now time.Time) {
	b.shared = true
	b.tokens.SetLimitAt(now, rate.Limit(b.limit.Rate*part))
	b.tokens.SetBurstAt(now, int(float64(b.limit.Burst)*part+rounding))
}

// rounding is a tolerance for rounding errors, in tokens.
const rounding = 1e-6

// missing returns the time until the bucket has a token, or zero if it has one.
func (b *bucket) missing(now time.Time) time.Duration {
	if b == nil {
		return 0
	}
	have := b.tokens.TokensAt(now)
	switch {
	case have >= 1-rounding:
		return 0
	case b.tokens.Limit() <= 0 || b.tokens.Burst() < 1:
		return time.Second // this orchestrator has no share
	}
	return time.Duration(math.Ceil((1 - have) / float64(b.tokens.Limit()) * float64(time.Second)))
}

func (b *bucket) take(now time.Time) {
	if b != nil {
		b.tokens.AllowN(now, 1)
	}
}

// full reports whether the bucket has all its tokens.
func (b *bucket) full(now time.Time) bool {
	return b == nil || b.tokens.TokensAt(now) >= float64(b.tokens.Burst())
}

// takeBoth takes a token from the user's bucket and one from the class's bucket. If either is empty, it takes none and
// returns the refusal.
func takeBoth(user, class *bucket, now time.Time) error {
	if after := user.missing(now); after > 0 {
		return dbaas.Refuse(dbaas.ReasonUserRate, after, "this user sends more requests than its limit allows")
	}
	if after := class.missing(now); after > 0 {
		return dbaas.Refuse(dbaas.ReasonClassRate, after, "all users together send more requests of this class than its limit allows")
	}
	user.take(now)
	class.take(now)
	return nil
}

// Quota is what the headers RateLimit-Policy and RateLimit say about a bucket.
type Quota struct {
	Class Class
	// Burst is the size of the bucket, which fills within Window. Left tokens are available; the bucket is full again
	// after Full.
	Burst, Left  int
	Window, Full time.Duration
}

func (b *bucket) quota(class Class, now time.Time) Quota {
	burst, perSecond := float64(b.tokens.Burst()), float64(b.tokens.Limit())
	have := min(max(b.tokens.TokensAt(now), 0), burst)
	q := Quota{Class: class, Burst: b.tokens.Burst(), Left: int(have + rounding)}
	if perSecond > 0 {
		q.Window = time.Duration(burst / perSecond * float64(time.Second))
		q.Full = time.Duration((burst - have) / perSecond * float64(time.Second))
	}
	return q
}

// Headers returns the values of RateLimit-Policy and RateLimit. Their times are whole seconds, rounded up. Each request
// of a limited class needs both, so one allocation serves both.
func (q Quota) Headers() (policy, state string) {
	var room [96]byte
	b := q.appendTo(room[:0], ";q=", q.Burst, ";w=", max(q.Window, time.Second))
	n := len(b)
	text := string(q.appendTo(b, ";r=", q.Left, ";t=", q.Full))
	return text[:n], text[n:]
}

// appendTo appends the class, a number and a time, such as "read";q=5000;w=1.
func (q Quota) appendTo(b []byte, number string, n int, seconds string, d time.Duration) []byte {
	b = append(append(append(b, '"'), q.Class.String()...), '"')
	b = strconv.AppendInt(append(b, number...), int64(n), 10)
	return strconv.AppendInt(append(b, seconds...), int64((d+time.Second-1)/time.Second), 10)
}
