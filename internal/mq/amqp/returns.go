package amqp

import amqp091 "github.com/rabbitmq/amqp091-go"

// returnsBuffer is how many returned messages may wait for the goroutine that takes them. That goroutine does nothing
// else, so they hardly ever wait.
const returnsBuffer = 256

// remember registers m so that its return can find it. It gives m an id of its own, because returns and confirms of
// many publishes arrive concurrently.
func (p *publisher) remember(m *publication) {
	if !m.mandatory {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending[m.message.MessageId] = m
}

func (p *publisher) forget(m *publication) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pending, m.message.MessageId)
}

// takeReturns marks returned publications until the channel ends. The library drops returns if their listener is full
// for 5 s, so this goroutine does nothing else.
func (p *publisher) takeReturns(returns chan amqp091.Return) {
	defer close(p.unswept)
	for {
		select {
		case r, ok := <-returns:
			if !ok {
				return
			}
			p.markReturned(r.MessageId)
		case swept := <-p.swept:
			for more := true; more; {
				select {
				case r, ok := <-returns:
					more = ok
					p.markReturned(r.MessageId)
				default:
					more = false
				}
			}
			close(swept)
		}
	}
}

func (p *publisher) markReturned(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.pending[id]; m != nil {
		m.returned = true
	}
}

// sweep returns once every return received so far is marked. The library delivers a return before the confirm that
// follows it, but to takeReturns, which may run later than the goroutine that waits for the confirm.
func (p *publisher) sweep() {
	swept := make(chan struct{})
	select {
	case p.swept <- swept:
		<-swept
	case <-p.unswept: // all that arrived are marked
	}
}
