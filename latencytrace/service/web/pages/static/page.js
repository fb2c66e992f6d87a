// Keys that all pages share: `/` goes to the filter, `g` and a letter to a page, `y` copies the address, `l` is live.
const EVERY_MS = 5000;
const SAID_MS = 8000; // then a message goes, but for one that is still true
const said = document.getElementById('said');
const say = (text) => { said.textContent = text; };
const writes = (target) => target.closest('input, select, textarea') !== null;
let afterG = false;

document.addEventListener('keydown', (event) => {
  if (writes(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (afterG) {
    afterG = false;
    const link = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
    if (link) { event.preventDefault(); link.click(); }
    return;
  }
  if (event.key === 'g') afterG = true;
  else if (event.key === '/') {
    const field = document.querySelector('#find, .cohort input');
    if (field) { event.preventDefault(); field.focus(); }
  } else if (event.key === '?') {
    const keys = document.getElementById('keys');
    keys.open = true;
    keys.scrollIntoView();
  } else if (event.key === 'l') {
    document.getElementById('live')?.click();
  } else if (event.key === 'y') {
    const lasting = document.querySelector('[data-absolute]')?.dataset.absolute ?? location.href;
    const address = new URL(lasting, location.href);
    address.hash = location.hash;
    navigator.clipboard?.writeText(address.href)
      .then(() => say('The address is copied.'), () => say('The address could not be copied.'));
  }
});

const panels = (of) => [...of.querySelectorAll('[data-panel]')];
const written = new WeakMap(panels(document).map((panel) => [panel, panel.innerHTML])); // before scripts add to it

// Acknowledge an incident: all of its alerts. Without scripts there is no such button.
const showButtons = () => { for (const one of document.querySelectorAll('[data-acknowledge]')) one.hidden = false; };
document.addEventListener('swapped', showButtons);
showButtons();
document.addEventListener('click', (event) => {
  const button = event.target.closest('[data-acknowledge]');
  if (!button) return;
  button.disabled = true;
  const api = document.querySelector('nav a').getAttribute('href').split('?')[0];
  const asked = button.dataset.acknowledge.trim().split(' ').map((one) => fetch(`${api}api/v1/alerts/${one}/acknowledge`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}',
  }));
  Promise.all(asked).then((answers) => {
    if (answers.every((one) => one.ok)) location.reload();
    else { button.disabled = false; say('▲ The service did not take the acknowledgement.'); }
  }, () => { button.disabled = false; say('▲ The service does not answer.'); });
});

// An empty field is no filter: it stays out of the address.
for (const form of document.querySelectorAll('form.cohort')) {
  form.addEventListener('formdata', ({ formData }) => {
    for (const name of new Set(formData.keys())) {
      const filled = formData.getAll(name).filter((value) => value.trim() !== '');
      formData.delete(name);
      for (const value of filled) formData.append(name, value);
    }
  });
}

// The value of a column of a small picture over time, beside the pointer.
const tip = document.createElement('div');
tip.className = 'tip';
tip.hidden = true;
document.body.append(tip);
document.addEventListener('pointermove', (event) => {
  const spark = event.target instanceof Element ? event.target.closest('svg.spark') : null;
  const box = spark?.getBoundingClientRect();
  const column = box ? Math.floor((event.clientX - box.left) / box.width * Number(spark.dataset.columns)) : -1;
  const found = (spark?.dataset.values ?? '').split(';').map((one) => one.split(':')).find(([at]) => at === String(column));
  tip.hidden = !found;
  if (!found) return;
  tip.textContent = `p99 ${found[1]}`;
  tip.style.left = `${Math.min(event.clientX + 14, innerWidth - 140)}px`;
  tip.style.top = `${event.clientY + 14}px`;
});

// Of a picture over time that is wider than a phone the latest part is seen first, with the numbers of its vertical axis.
const showEnds = () => {
  for (const svg of document.querySelectorAll('.scroll > .chart:not(.lanes, [data-ended])')) {
    const scroll = svg.parentElement;
    const numbers = [...svg.querySelectorAll('.axis[text-anchor="end"]')];
    const times = [...svg.querySelectorAll('.axis[text-anchor="middle"]')];
    const edge = 4 + Math.max(0, ...numbers.map((one) => Number(one.getAttribute('x'))));
    const under = document.createElementNS(svg.namespaceURI, 'rect');
    under.setAttribute('class', 'under');
    under.setAttribute('width', `${edge}`);
    under.setAttribute('height', `${svg.viewBox.baseVal.height}`);
    numbers.unshift(under);
    const follow = () => {
      const passed = scroll.scrollLeft * svg.viewBox.baseVal.width / svg.clientWidth;
      for (const one of numbers) one.setAttribute('transform', `translate(${passed})`);
      for (const one of times) {
        const isCut = passed > 0 && Number(one.getAttribute('x')) - one.getComputedTextLength() / 2 < passed + edge;
        one.setAttribute('visibility', isCut ? 'hidden' : 'visible');
      }
    };
    svg.append(...numbers); // above what is drawn
    scroll.addEventListener('scroll', follow);
    scroll.scrollLeft = scroll.scrollWidth;
    follow();
    svg.dataset.ended = 'yes';
  }
};
document.addEventListener('swapped', showEnds);
showEnds();

// Live: the page is asked for again while it is seen, and of its panels those that changed are replaced.
let isPressed = false;
let failed = false;
let forgetting = 0;
new MutationObserver(() => {
  clearTimeout(forgetting);
  if (said.textContent && !failed) forgetting = setTimeout(() => { if (!failed) say(''); }, SAID_MS);
}).observe(said, { childList: true, characterData: true, subtree: true });
addEventListener('pointerdown', () => { isPressed = true; }, true);
for (const end of ['pointerup', 'pointercancel']) addEventListener(end, () => { isPressed = false; }, true);

function isUsed(panel) {
  const selection = getSelection();
  return isPressed || panel.contains(document.activeElement)
    || (selection !== null && !selection.isCollapsed && panel.contains(selection.anchorNode));
}
function replace(panel, fresh) {
  const open = [...panel.querySelectorAll('details')].map((one) => one.open);
  const scrolled = [...panel.querySelectorAll('.scroll')].map((one) => one.scrollLeft);
  panel.replaceChildren(...[...fresh.childNodes].map((node) => document.importNode(node, true)));
  written.set(panel, fresh.innerHTML);
  [...panel.querySelectorAll('details')].forEach((one, place) => { one.open = open[place] ?? false; });
  document.dispatchEvent(new Event('swapped'));
  [...panel.querySelectorAll('.scroll')].forEach((one, place) => { if (place in scrolled) one.scrollLeft = scrolled[place]; });
}
function refresh(done) {
  const asked = new XMLHttpRequest();
  asked.responseType = 'document';
  asked.open('GET', location.href);
  asked.addEventListener('loadend', () => {
    const fresh = asked.status === 200 && asked.response ? panels(asked.response) : null;
    const now = panels(document);
    if (!fresh || fresh.length !== now.length) {
      const wasKnown = failed;
      failed = true;
      if (!wasKnown) say('▲ The service does not answer as before: what you see is from before. It is asked again.');
    } else {
      const wasGone = failed;
      failed = false;
      const later = asked.response.querySelector('[data-absolute]');
      if (later) document.querySelector('[data-absolute]').dataset.absolute = later.dataset.absolute;
      if (wasGone) say('The service answers again.');
      now.forEach((panel, place) => {
        if (written.get(panel) !== fresh[place].innerHTML && !isUsed(panel)) replace(panel, fresh[place]);
      });
    }
    done();
  });
  asked.send();
}
const place = document.querySelector('form.cohort button') ?? document.querySelector('[data-live]');
if (place) {
  const address = new URL(location.href);
  const isOver = Boolean(address.searchParams.get('until')); // a stretch of the past never changes
  const key = `live ${location.pathname}`;
  const button = document.createElement('button');
  let timer = 0;
  const show = (on) => {
    button.setAttribute('aria-pressed', on);
    button.textContent = on ? '● Live' : 'Live';
  };
  const turn = (on) => {
    clearTimeout(timer);
    show(on);
    if (on) timer = setTimeout(again, EVERY_MS);
    try { sessionStorage.setItem(key, on ? 'on' : ''); } catch { /* none is kept */ }
  };
  const isOn = () => button.getAttribute('aria-pressed') === 'true';
  const again = () => {
    if (document.hidden) return; // until it is seen again
    refresh(() => { if (isOn()) timer = setTimeout(again, EVERY_MS); });
  };
  document.addEventListener('visibilitychange', () => {
    clearTimeout(timer);
    if (!document.hidden && isOn()) again();
  });
  button.type = 'button';
  button.id = 'live';
  button.title = `${isOver ? 'Back to the newest requests, refreshed' : 'Refresh'} every five seconds`;
  button.addEventListener('click', () => {
    turn(!isOn());
    if (!isOver) return;
    for (const name of ['since', 'until']) address.searchParams.delete(name);
    location.assign(address);
  });
  if (place.matches('[data-live]')) place.before(button);
  else place.after(button);
  let kept = '';
  try { kept = sessionStorage.getItem(key); } catch { /* none is kept */ }
  if (isOver) show(false); // and what is kept stays
  else turn(kept === 'on');
}
