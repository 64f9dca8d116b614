// Scaling: how many slaves were wanted, why, and by which limits.

import { call } from './api.js';
import { chart } from './chart.js';
import { clock, field, h, loaded, number, outcome, panel, table } from './ui.js';

const every = 3000; // milliseconds between looks at the decisions

export function scaling(app) {
  const said = outcome();
  const looked = outcome(); // of the decisions
  const admin = app.may('admin');
  const charts = [
    chart({ title: 'Slaves', format: number, least: 1, gap: Infinity, series: [{ name: 'serving', of: (d) => d.sample.slaves, step: true }, { name: 'wanted', of: (d) => d.wanted, step: true, dashed: true }] }),
    chart({ title: 'Reads in a window', format: number, least: 1, gap: Infinity, series: [{ name: 'reads', of: (d) => d.count, step: true }] }),
  ];
  const list = h('div', {});
  const dry = h('div', {});
  const policy = h('select', { disabled: !admin }, h('option', { value: 'reads' }, 'reads: by the reads in a window'), h('option', { value: 'latency' }, 'latency: by waiting and busy time'));
  const numeric = () => h('input', { type: 'number', min: 1, required: true, disabled: !admin });
  const least = numeric(), most = numeric(), each = numeric();
  const source = h('p', { class: 'muted' });
  let version = null; // of the limits; null until they are loaded

  const show = (s) => {
    version = s.version;
    [policy.value, least.value, most.value, each.value] = [s.policy, s.min, s.max, s.reads_per_slave];
    source.textContent = `A window lasts ${s.period_s} s. ` + (version ? 'These limits were set here or by the API, and count for all orchestrators.' : 'These limits are those of the settings at the start.');
  };
  const wish = () => {
    if (version === null) throw new Error('The limits are not known yet.');
    return { policy: policy.value, min: Number(least.value), max: Number(most.value), reads_per_slave: Number(each.value), version };
  };
  const buttons = {
    save: h('button', { class: 'act primary' }, 'Save'),
    dry: h('button', { type: 'button', class: 'act', onclick: () => said.run(buttons.dry, tryOut) }, 'Dry run'),
  };
  async function save() {
    const { data } = await call('PATCH', '/api/v1/scaling', wish());
    show(data.settings);
    dry.replaceChildren();
    return 'Saved. All orchestrators follow at their next decision.';
  }
  async function tryOut() {
    const { data } = await call('PATCH', '/api/v1/scaling?dry_run', wish());
    dry.replaceChildren(h('h3', {}, 'What these limits would have decided'), table([['Time'], ['Reads', 'number'], ['Was', 'number'], ['Would be', 'number'], ['Why', 'long']],
      data.would.toReversed().slice(0, 20).map((one) => [clock(one.at), number(one.count), number(one.was), number(one.wanted), one.why]), 'There is no decision to compare with yet.'));
    return 'Nothing was changed.';
  }
  async function look() {
    const { data } = await call('GET', '/api/v1/scaling/decisions');
    const points = data.map((d) => ({ ...d, at: Date.parse(d.at) }));
    const to = Math.max(Date.now(), points.at(-1)?.at ?? 0);
    for (const c of charts) c.draw(points, Math.min(points[0]?.at ?? to, to - 60000), to);
    list.replaceChildren(table([['Time'], ['Reads', 'number'], ['Wanted', 'number'], ['By'], ['Why', 'long'], ['The other policy', 'long']], data.toReversed().slice(0, 60).map((d) => [
      clock(d.at), number(d.count), d.done ? number(d.wanted) : h('span', { class: 'warn' }, d.wanted + ', not done'), d.policy, d.why, d.would.map((w) => `${w.policy}: ${w.wanted}, ${w.why}`).join('; ')]),
    'No decision yet: the first one is made a window after the first request.'));
  }
  const poll = () => app.alive && look().then(() => looked.clear(), (err) => looked.bad(err));
  const timer = setInterval(poll, every);
  poll();
  loaded(said, async () => show((await call('GET', '/api/v1/scaling')).data)).catch(() => {}); // The view is gone.

  return {
    element: h('div', { class: 'view' },
      panel('Limits', h('form', { class: 'fields', onsubmit: (event) => { event.preventDefault(); said.run(buttons.save, save); } },
        field('Policy', policy), field('Fewest slaves', least), field('Most slaves', most), field('Reads for each slave', each, 'with policy reads'), admin ? h('span', { class: 'buttons' }, buttons.save, buttons.dry) : null),
      admin ? source : [source, h('p', { class: 'muted' }, 'Changing them needs the role admin.')], said.element, dry),
      h('div', { class: 'charts' }, charts.map((c) => h('div', { class: 'panel' }, c.element))),
      panel('Decisions', looked.element, list)),
    close: () => clearInterval(timer),
  };
}
