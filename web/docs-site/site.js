// Search, theme and menu of the documentation. No markup is made from text: the policy allows none.
(() => {
  const byId = (id) => document.getElementById(id);
  const [input, results, theme, menu] = ['search', 'results', 'theme', 'menu'].map(byId);
  const RESULTS_MAX = 12;
  const TEXT_AROUND = 60;
  let sections = null;
  let chosen = -1;

  const load = () => (sections ??= fetch('search.json').then((reply) => reply.json()));

  /** How well a section fits: words in titles count more than words in the text. */
  function scoreOf({ title, heading, text }, words) {
    let score = 0;
    for (const word of words) {
      const inHeading = heading.toLowerCase().includes(word);
      const inTitle = title.toLowerCase().includes(word);
      const inText = text.toLowerCase().includes(word);
      if (!inHeading && !inTitle && !inText) return 0;
      score += (inHeading ? 8 : 0) + (inTitle ? 4 : 0) + (inText ? 1 : 0);
      if (heading.toLowerCase() === word) score += 8;
    }
    return score;
  }

  function excerpt(text, word) {
    const at = Math.max(0, text.toLowerCase().indexOf(word) - TEXT_AROUND);
    return `${at > 0 ? '…' : ''}${text.slice(at, at + 2 * TEXT_AROUND)}…`;
  }

  function element(name, className, text) {
    const made = document.createElement(name);
    made.className = className;
    made.textContent = text;
    return made;
  }

  function show(found, words) {
    results.replaceChildren(
      ...found.map(({ page, anchor, title, heading, text }) => {
        const item = document.createElement('li');
        const link = document.createElement('a');
        link.href = `${page}.html#${anchor}`;
        link.append(
          element('strong', '', heading === title ? title : `${title}: ${heading}`),
          element('span', '', excerpt(text, words[0])),
        );
        item.append(link);
        return item;
      }),
    );
    if (found.length === 0) results.append(element('li', 'none', 'No matching pages'));
    results.hidden = false;
    chosen = -1;
  }

  async function search() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length === 0) {
      results.hidden = true;
      return;
    }
    const all = await load();
    const scored = all.map((section) => [scoreOf(section, words), section]).filter(([score]) => score > 0);
    scored.sort(([one], [other]) => other - one);
    show(
      scored.slice(0, RESULTS_MAX).map(([, section]) => section),
      words,
    );
  }

  input.addEventListener('input', () => void search());
  input.addEventListener('focus', () => void load());
  input.addEventListener('keydown', (event) => {
    const links = [...results.querySelectorAll('a')];
    if (event.key === 'Escape') {
      results.hidden = true;
      input.blur();
    } else if (event.key === 'Enter') links[Math.max(0, chosen)]?.click();
    else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      const step = event.key === 'ArrowDown' ? 1 : -1;
      chosen = Math.max(0, Math.min(links.length - 1, chosen + step));
      for (const [index, link] of links.entries()) link.classList.toggle('chosen', index === chosen);
      links[chosen]?.scrollIntoView({ block: 'nearest' });
    }
  });
  document.addEventListener('keydown', (event) => {
    if (event.key !== '/' || event.target.closest('input, textarea')) return;
    event.preventDefault();
    input.focus();
  });
  document.addEventListener('click', (event) => {
    if (!event.target.closest('.search')) results.hidden = true;
  });

  theme.addEventListener('click', () => {
    const next = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
    document.documentElement.dataset.theme = next;
    try {
      localStorage.setItem('theme', next);
    } catch {}
  });

  menu.addEventListener('click', () => {
    const isOpen = document.body.classList.toggle('menu-open');
    menu.setAttribute('aria-expanded', String(isOpen));
  });
})();
