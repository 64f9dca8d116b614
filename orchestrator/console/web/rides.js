// Rides: the application, through the database's SQL. Users and rides have an address of their own, which this page may
// not call.

import { execute, query, text } from './api.js';
import { field, h, loaded, outcome, panel, table } from './ui.js';

const most = 50; // rows of a list
// The service's own rule: not the creator, not twice, and only while a seat is left.
const joinSQL = 'INSERT INTO riders(rideId, user) SELECT rideId, ?2 FROM rides WHERE rideId = ?1 AND created_by <> ?2' +
  ' AND NOT EXISTS(SELECT 1 FROM riders WHERE rideId = ?1 AND user = ?2)' +
  ' AND (seats IS NULL OR (SELECT count(*) FROM riders WHERE rideId = ?1) < seats)';
const noPassword = '!'; // no hash: nobody can sign in with it

const timestamp = (local) => local.replace(/^(\d+)-(\d+)-(\d+)T(\d+):(\d+)$/, '$3-$2-$1:00-$5-$4'); // seconds come first
const readable = (stamp) => stamp.replace(/^(\d+)-(\d+)-(\d+):(\d+)-(\d+)-(\d+)$/, '$3-$2-$1 $6:$5');

export function rides(app) {
  const said = outcome();
  const writer = app.may('write');
  const people = h('div', {});
  const list = h('div', {});
  const areas = new Map();
  const choose = (any) => h('select', {}, any ? h('option', { value: '' }, 'any') : null);
  const route = { from: choose(true), to: choose(true) };
  const names = h('datalist', { id: 'people' });
  const made = {
    user: h('input', { required: true, autocomplete: 'off' }), from: choose(), to: choose(), by: h('input', { list: 'people', required: true, autocomplete: 'off' }),
    at: h('input', { type: 'datetime-local', required: true, max: '9999-12-31T23:59', value: new Date(Date.now() + 86400000).toISOString().slice(0, 16) }), seats: h('input', { type: 'number', min: 1, placeholder: 'no limit' }),
  };
  const who = h('input', { list: 'people', autocomplete: 'off' });

  async function showUsers() {
    const { values } = await query(`SELECT username, (SELECT count(*) FROM rides WHERE created_by = username), (SELECT count(*) FROM riders WHERE user = username) FROM users ORDER BY username LIMIT ${most}`);
    people.replaceChildren(table([['User'], ['Rides', 'number'], ['Joined', 'number']], values ?? [], 'No users yet.'), more(values, `The first ${most} by name.`));
    names.replaceChildren(...(values ?? []).map(([name]) => h('option', { value: name })));
  }
  async function showRides() {
    const { values } = await query('SELECT rideId, created_by, timestamp, source, destination, seats, (SELECT count(*) FROM riders r WHERE r.rideId = rides.rideId),' +
      " (SELECT group_concat(user, ', ') FROM riders r WHERE r.rideId = rides.rideId) FROM rides WHERE (?1 = '' OR source = ?1) AND (?2 = '' OR destination = ?2)" +
      ` ORDER BY rideId DESC LIMIT ${most}`, route.from.value && Number(route.from.value), route.to.value && Number(route.to.value));
    const columns = [['Ride', 'number'], ['From'], ['To'], ['When', 'short'], ['By'], ['Riders'], ['Seats left', 'number'], ...writer ? [['Join']] : []];
    list.replaceChildren(table(columns, (values ?? []).map(([id, by, at, from, to, seats, taken, riders]) => {
      const join = h('button', { type: 'button', class: 'act', 'aria-label': `Join ride ${id}`, onclick: () => said.run(join, () => joinRide(id)) }, 'Join');
      return [String(id), areas.get(from) ?? String(from), areas.get(to) ?? String(to), readable(at), by, riders ?? '–', seats === null ? 'no limit' : String(seats - taken),
        ...writer ? [seats !== null && taken >= seats ? 'full' : join] : []];
    }), 'No rides on this route.'), more(values, `The newest ${most} on this route.`));
  }
  const more = (rows, text) => rows?.length === most ? h('p', { class: 'muted' }, text) : '';
  const refresh = () => Promise.all([showUsers(), showRides()]);
  // after shows the lists as they are after a write, and returns what to say. A write is done also if they cannot be read.
  const after = (done) => refresh().then(() => done, (err) => `${done} The lists could not be read again: ${err.message}`);

  async function joinRide(id) {
    if (!who.value) throw new Error('Name the user who joins, above the list.');
    const user = who.value;
    const { rows_affected: joined } = await execute(joinSQL, id, user);
    const done = await after(joined ? `${user} has joined ride ${id}.` : `${user} did not join ride ${id}: it is full or gone, or ${user} made or joined it already.`);
    if (!joined) throw new Error(done);
    return done;
  }
  async function createUser() {
    const name = made.user.value;
    if (name === '_count') throw new Error('The name _count is reserved.');
    await execute('INSERT INTO users(username, password) VALUES(?, ?)', name, noPassword);
    return after(`${name} was created, without a password.`);
  }
  async function createRide() {
    if (made.from.value === made.to.value) throw new Error('A ride needs two different areas.');
    const { last_insert_id: id } = await execute('INSERT INTO rides(created_by, timestamp, source, destination, seats) VALUES(?, ?, ?, ?, ?)',
      made.by.value, timestamp(made.at.value), Number(made.from.value), Number(made.to.value), made.seats.value ? Number(made.seats.value) : null);
    return after(`Ride ${id} was created.`);
  }
  const form = (action, verb, ...fields) => {
    const button = h('button', { class: 'act' }, verb);
    return h('form', { class: 'fields', onsubmit: (event) => { event.preventDefault(); said.run(button, action); } }, fields, button);
  };
  route.from.addEventListener('change', () => showRides().catch((err) => said.bad(err)));
  route.to.addEventListener('change', () => showRides().catch((err) => said.bad(err)));
  async function showAreas() {
    for (const [, number, name] of (await text('/console/areas.csv')).matchAll(/^(\d+),"?([^"\r\n]*)"?\r?$/gm)) {
      areas.set(Number(number), name);
      for (const select of [route.from, route.to, made.from, made.to]) select.append(h('option', { value: number }, name));
    }
    made.to.selectedIndex = 1;
  }
  loaded(said, showAreas).then(() => loaded(said, refresh)).catch(() => {}); // The view is gone.

  return {
    element: h('div', { class: 'view split' },
      h('div', {},
        writer ? panel('New ride', form(createRide, 'Create ride', field('By', made.by), field('From', made.from), field('To', made.to), field('When', made.at, 'in the time zone of rides'), field('Seats', made.seats))) : null,
        panel('Rides', h('div', { class: 'fields' }, field('From', route.from), field('To', route.to), writer ? field('Who joins', who) : null), said.element, list)),
      panel('Users', writer ? form(createUser, 'Create user', field('Name', made.user)) : h('p', { class: 'muted' }, 'Creating and joining need the role write.'), people, names)),
  };
}
