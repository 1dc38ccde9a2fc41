// Keeps the page up to date: fetches it anew every two seconds and swaps the parts that changed. Without scripts the page
// reloads itself.
'use strict';
(() => {
  const EVERY_MS = 2000;
  const main = document.getElementById('live');
  const pulse = document.getElementById('pulse');
  const shown = new Map();

  // Whether the user is selecting text in it.
  const isHeld = (element) => {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && selection.containsNode(element, true);
  };

  // Replaces a part, and keeps what is open, scrolled and focused in it.
  const swap = (old, fresh) => {
    for (const details of old.querySelectorAll('details[id][open]')) {
      const again = fresh.querySelector('#' + CSS.escape(details.id));
      if (again) again.open = true;
    }
    const boxes = (part) => [...part.querySelectorAll('.scroll')];
    const places = boxes(old).map((box) => [box.scrollLeft, box.scrollTop]);
    const focused = old.contains(document.activeElement) ? document.activeElement.id : '';
    old.replaceWith(fresh);
    boxes(fresh).forEach((box, place) => {
      if (places[place]) [box.scrollLeft, box.scrollTop] = places[place];
    });
    const again = focused && document.getElementById(focused);
    if (again) again.focus({ preventScroll: true });
  };

  // What is shown is not swapped for the same: a choice that is being made stays.
  const note = () => {
    shown.clear();
    for (const part of main.children) shown.set(part.id, part.outerHTML);
  };

  const show = (html) => {
    const fresh = new DOMParser().parseFromString(html, 'text/html').getElementById('live');
    const ids = (whole) => [...whole.children].map((part) => part.id).join(' ');
    if (ids(fresh) !== ids(main)) {
      main.replaceChildren(...[...fresh.children].map((part) => document.adoptNode(part)));
      note();
      return;
    }
    for (const part of [...fresh.children]) {
      const old = document.getElementById(part.id);
      if (!old || shown.get(part.id) === part.outerHTML || isHeld(old)) continue;
      shown.set(part.id, part.outerHTML);
      swap(old, document.adoptNode(part));
    }
  };

  const look = async () => {
    if (!document.hidden) {
      try {
        const answer = await fetch(location.href, { cache: 'no-store', signal: AbortSignal.timeout(5000) });
        if (!answer.ok) throw new Error(answer.status);
        show(await answer.text());
        pulse.className = 'live';
        pulse.textContent = 'live';
      } catch {
        pulse.className = 'gone';
        pulse.textContent = 'The gateway does not respond; these are its last numbers.';
      }
    }
    setTimeout(look, EVERY_MS);
  };

  note();
  pulse.className = 'live';
  pulse.textContent = 'live';
  document.addEventListener('visibilitychange', () => main.toggleAttribute('aria-busy', document.hidden));
  setTimeout(look, EVERY_MS);
})();
