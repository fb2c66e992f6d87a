// Pictures over time: what is below the pointer, and a stretch of time that the page is then about.
import { counted, inWords, lastColumn, momentOf, onKeys, onPicture, swapped, within } from './picture.js';

function begin(svg) {
  const scale = JSON.parse(svg.dataset.scale);
  const known = new Map(scale.columns.map(([column, ...rest]) => [column, rest]));
  const picture = onPicture(svg);
  const bounds = { last: lastColumn(scale), low: 0, high: 0 };
  const columnAt = (event) => Math.floor((picture.point(event).x - scale.left) / scale.column);
  const inside = (column) => within(bounds, [column, 0])[0];
  const moment = (column) => momentOf(scale, column);
  let from = null;

  const mark = (a, b) => {
    const left = Math.min(a, b);
    picture.brush.setAttribute('x', scale.left + left * scale.column);
    picture.brush.setAttribute('width', (Math.max(a, b) + 1 - left) * scale.column);
  };
  const forget = () => { from = null; picture.brush.setAttribute('width', 0); };
  const tell = (a, b) => {
    const [left, right] = [Math.min(a, b), Math.max(a, b)];
    const at = inWords(moment(left));
    if (left < right) {
      const found = scale.columns.reduce((sum, [column, requests]) => (column >= left && column <= right ? sum + requests : sum), 0);
      return `${at} until ${inWords(moment(right + 1))}: ${counted(found)}`;
    }
    const found = known.get(left);
    if (!found) return `${at}: no request`;
    return `${at}: ${counted(found[0])}${found[1] ? `, mean ${found[1]}: ${found[2]}` : ''}`;
  };
  const open = (a, b) => {
    const address = new URL(location.href);
    address.searchParams.set('since', moment(Math.min(a, b)));
    address.searchParams.set('until', moment(Math.max(a, b) + 1));
    location.assign(address);
  };
  svg.addEventListener('pointerdown', (event) => {
    if (event.target.closest('a')) return; // a release or a request
    const column = columnAt(event);
    if (column !== inside(column)) return;
    from = column;
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener('pointermove', (event) => {
    const column = columnAt(event);
    const to = inside(column);
    if (from !== null) mark(from, to);
    picture.tip(event, from === null && column !== to ? '' : tell(from ?? to, to));
  });
  svg.addEventListener('pointerleave', (event) => picture.tip(event, ''));
  svg.addEventListener('pointercancel', (event) => { forget(); picture.tip(event, ''); }); // a finger scrolls
  svg.addEventListener('pointerup', (event) => {
    if (from === null) return;
    const begun = from;
    from = null;
    open(begun, inside(columnAt(event)));
  });
  const ofColumns = (act) => ([a], [b]) => act(a, b);
  onKeys(svg, {
    first: [scale.columns.at(-1)[0], 0], bounds, mark: ofColumns(mark), tell: ofColumns(tell), open: ofColumns(open), forget,
  });
  svg.dataset.ready = 'yes';
}

swapped('svg.timeline, svg.scatter', begin);
