// Keys that all pages share: `/` goes to the filter, `g` and a letter to a page, `y` copies the address.
const say = (text) => { document.getElementById('said').textContent = text; };
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
  } else if (event.key === 'y') {
    const address = document.querySelector('[data-absolute]')?.dataset.absolute ?? location.href;
    navigator.clipboard?.writeText(new URL(address, location.href).href)
      .then(() => say('The address is copied.'), () => say('The address could not be copied.'));
  }
});

// An empty field is no filter: it stays out of the address.
for (const form of document.querySelectorAll('form.cohort')) {
  form.addEventListener('submit', () => {
    for (const field of form.querySelectorAll('input')) field.disabled = field.value.trim() === '';
  });
}
