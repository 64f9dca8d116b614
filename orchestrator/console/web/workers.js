// Workers: who keeps a replica, in which role, and how it does.

import { call } from './api.js';
import { age, ask, bytes, h, number, outcome, panel, percent, setText, table } from './ui.js';

const columns = ['Role', 'Pid', 'State', 'Worker', 'Host', 'Position', 'Lag', 'Reads in flight', 'Busy', 'Memory', 'Running for'];

export function workers(app) {
  const said = outcome();
  const report = h('div', {});
  const body = h('tbody', {});
  const rows = new Map(); // by worker: rows stay, so that the focus stays on their buttons
  const admin = app.may('admin');
  const head = h('tr', {}, columns.map((title, i) => h('th', { scope: 'col', class: i > 4 || i === 1 ? 'number' : null }, title)), admin ? h('th', { scope: 'col' }, 'Actions') : null);
  const check = admin ? h('button', { type: 'button', class: 'act', onclick: () => runCheck() }, 'Run the check') : null;
  const element = h('div', { class: 'view' },
    panel('Workers',
      admin ? h('p', { class: 'buttons' }, check, h('small', {}, 'Of the slaves, the one with the highest pid can be crashed.')) : h('p', { class: 'muted' }, 'Crashing, handing over and checking need the role admin.'),
      said.element, h('div', { class: 'scroll' }, h('table', { class: 'cards' }, h('thead', {}, head), body)), report));

  const epoch = () => app.state.cluster.epoch;

  // act asks first. What changes roles then sends what the user saw: the orchestrator refuses it if the roles have changed since.
  async function act(button, { title, consequence, verb, done, send }) {
    if (await ask(title, consequence, verb)) await said.run(button, async () => done((await send()).data));
  }
  function crash(button, member) {
    const seen = new URLSearchParams({ worker: member.container, ...(epoch() && { epoch: epoch() }) }); // 0: not known
    return act(button, {
      title: `Crash the ${member.role} ${member.pid}?`, verb: 'Crash',
      consequence: (member.role === 'master' ? 'Writes wait until a slave has followed, some hundred milliseconds.' : 'Its reads are sent to another slave.') + ' A new worker is started in its stead.',
      send: () => call('POST', `/api/v1/crash/${member.role}?${seen}`), done: ([pid]) => `Worker ${pid} was killed.`,
    });
  }
  function handOver(button, member) {
    const wish = { pid: member.pid, epoch: epoch() };
    return act(button, {
      title: `Make ${member.pid} the master?`, consequence: 'No request fails. The present master becomes a slave.', verb: 'Hand over',
      send: () => call('POST', '/api/v1/master', wish), done: ({ old, new: next }) => `${next.pid} is the master with epoch ${next.epoch}, after ${old.pid}.`,
    });
  }
  function runCheck() {
    return act(check, {
      title: 'Run the check?', verb: 'Check',
      consequence: 'It reads the whole log, and the whole database at persdb and at every worker. A worker whose rows differ discards its replica, and serves no reads until it has fetched a new one.',
      send: () => call('POST', '/api/v1/check'),
      done: ({ ok, invariants }) => {
        report.replaceChildren(h('h3', {}, 'Check'), table([['Invariant'], ['Result'], ['Detail', 'long']],
          invariants.map((one) => [one.name, h('span', { class: one.ok ? 'good' : 'bad' }, one.ok ? 'holds' : 'does not hold'), one.detail || ''])));
        return ok ? 'All invariants hold.' : null;
      },
    });
  }

  function row(member) {
    const cells = columns.map((title, i) => h('td', { 'data-label': title, class: i > 4 || i === 1 ? 'number' : null }));
    const actions = h('td', { class: 'buttons', 'data-label': 'Actions' });
    return { element: h('tr', {}, cells, admin ? actions : null), cells, actions, offered: '' };
  }

  function offer(kept, member, members) {
    const last = member.role === 'slave' && members.filter((m) => m.role === 'slave').at(-1) === member;
    const wanted = [member.role === 'master' || last ? 'crash' : '', member.role === 'slave' && member.ready ? 'hand over' : ''].join(' ') + member.role;
    kept.member = member;
    if (wanted === kept.offered) return;
    kept.offered = wanted;
    const button = (name, label, action) => h('button', { type: 'button', class: 'act', 'aria-label': label, onclick: (event) => action(event.target, kept.member) }, name);
    kept.actions.replaceChildren(
      wanted.includes('hand over') ? button('Make master', `Make ${member.pid} the master`, handOver) : '',
      wanted.includes('crash') ? button('Crash', `Crash the ${member.role} ${member.pid}`, crash) : '');
  }

  function update() {
    const members = app.state?.cluster?.members;
    if (!members) return;
    const ordered = members.toSorted((a, b) => (a.role === 'master' ? 0 : 1) - (b.role === 'master' ? 0 : 1) || a.pid - b.pid);
    for (const [worker, kept] of rows) {
      if (members.every((m) => m.container !== worker)) { kept.element.remove(); rows.delete(worker); }
    }
    ordered.forEach((m, i) => {
      if (!rows.has(m.container)) rows.set(m.container, row(m));
      const kept = rows.get(m.container);
      const texts = [m.role, m.pid, m.ready ? 'serving' : 'starting', m.container.slice(0, 16), m.host ?? '–', number(m.applied_seq), number(m.lag),
        number(m.reads_in_flight), percent(m.busy), bytes(m.memory_bytes), age(m.started_at)];
      texts.forEach((text, j) => setText(kept.cells[j], String(text)));
      kept.cells[0].className = 'role-' + m.role;
      kept.cells[2].className = m.ready ? 'good' : 'warn';
      kept.cells[3].title = m.container;
      if (admin) offer(kept, m, members);
      if (body.children[i] !== kept.element) body.insertBefore(kept.element, body.children[i] ?? null);
    });
  }
  return { element, update };
}
