// The heat map: what is below the pointer, and a box that leads to its requests.
import { duration } from './duration.js';
import { counted, instantOf, inWords, lastColumn, momentOf, onKeys, onPicture, swapped } from './picture.js';

const ENOUGH = 10; // requests, for a cause to be named

function begin(svg) {
  const scale = JSON.parse(svg.dataset.scale);
  const picture = onPicture(svg);
  const { brush, point } = picture;
  const slowest = scale.cells.reduce((best, cell) => (cell[1] > best[1] ? cell : best));
  const bounds = { last: lastColumn(scale), low: Math.min(...scale.cells.map((cell) => cell[1])), high: slowest[1] };

  const half = scale.cells.reduce((sum, cell) => sum + cell[2], 0) / 2;
  let passed = 0;
  const middle = [...scale.cells].sort((a, b) => a[1] - b[1]).find((cell) => (passed += cell[2]) >= half)[1]; // the median's row

  const cellAt = (event) => {
    const { x, y } = point(event);
    return [Math.floor((x - scale.left) / scale.column), Math.floor((scale.zero - y) / scale.row)];
  };
  const ns = (row) => (row > 0 ? Math.ceil(2 ** (row / scale.per_doubling)) : 0); // the first row has those of none, too
  const moment = (column) => momentOf(scale, column);
  const box = ([a, b], [c, d]) => ({ left: Math.min(a, c), right: Math.max(a, c) + 1, low: Math.min(b, d), high: Math.max(b, d) + 1 });
  const inBox = ({ left, right, low, high }) => scale.cells.reduce((sum, [column, row, requests]) => (
    column >= left && column < right && row >= low && row < high ? sum + requests : sum), 0);
  const mark = ({ left, right, low, high }) => {
    brush.setAttribute('x', scale.left + left * scale.column);
    brush.setAttribute('width', (right - left) * scale.column);
    brush.setAttribute('y', scale.zero - high * scale.row);
    brush.setAttribute('height', (high - low) * scale.row);
  };
  const asksWhy = (found) => inBox(found) >= ENOUGH && found.low > middle;
  const tell = (found) => {
    const until = found.right - found.left > 1 ? ` until ${inWords(moment(found.right))}` : '';
    const said = `${counted(inBox(found))}, ${duration(ns(found.low))} to ${duration(ns(found.high))}, from ${inWords(moment(found.left))}${until}`;
    return inBox(found) ? `${said}: ${asksWhy(found) ? 'why?' : 'see them'}` : said;
  };
  const open = (found) => {
    if (!inBox(found)) return;
    const why = asksWhy(found);
    const address = new URL(why ? 'tail' : 'requests', document.querySelector('.brand').href);
    for (const [name, value] of new URL(location.href).searchParams) if (value && name !== 'by') address.searchParams.append(name, value);
    const selected = {
      since: moment(found.left), until: moment(found.right), duration: `${ns(found.low)}ns..${ns(found.high) - 1}ns`,
    };
    if (why) {
      address.searchParams.set('since', moment(0));
      address.searchParams.set('until', instantOf(BigInt(scale.until)));
      address.searchParams.set('selected', selected.duration);
      address.searchParams.set('selected_since', selected.since);
      address.searchParams.set('selected_until', selected.until);
    } else for (const [name, value] of Object.entries(selected)) address.searchParams.set(name, value);
    location.assign(address);
  };

  let from = null;
  const forget = () => { from = null; brush.setAttribute('width', 0); };
  svg.addEventListener('pointerdown', (event) => {
    if (event.target.closest('a')) return; // a release
    from = cellAt(event);
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener('pointermove', (event) => {
    const cell = cellAt(event);
    const found = box(from ?? cell, cell);
    if (from) mark(found);
    picture.tip(event, inBox(found) ? tell(found) : '');
  });
  svg.addEventListener('pointerleave', (event) => picture.tip(event, ''));
  svg.addEventListener('pointercancel', (event) => { forget(); picture.tip(event, ''); }); // a finger scrolls
  svg.addEventListener('pointerup', (event) => {
    if (!from) return;
    const found = box(from, cellAt(event));
    from = null;
    open(found);
  });
  const ofCells = (act) => (a, b) => act(box(a, b));
  onKeys(svg, { first: slowest.slice(0, 2), bounds, mark: ofCells(mark), tell: ofCells(tell), open: ofCells(open), forget });
  svg.dataset.ready = 'yes';
}

swapped('svg.heat', begin);
