package telemetry

import "time"

// Expiry returns the metric for the time until a certificate expires. at returns when it expires, zero without a
// certificate.
func Expiry(at func() time.Time) Sampled {
	return Sampled{
		Name: "rideshare_tls_certificate_expiry_seconds", Help: "Seconds until the part's certificate expires; negative after that.", Gauge: true,
		Read: func(emit func(float64, ...string)) {
			if end := at(); !end.IsZero() {
				emit(time.Until(end).Seconds())
			}
		},
	}
}
