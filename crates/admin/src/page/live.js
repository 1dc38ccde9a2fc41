// Keeps the page up to date: fetches the part that changes every two seconds and swaps what did. Without scripts the page
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

  const show = (html) => {
    const fresh = new DOMParser().parseFromString(html, 'text/html').body;
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
        const answer = await fetch('/fragment', { cache: 'no-store', signal: AbortSignal.timeout(5000) });
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

  pulse.className = 'live';
  pulse.textContent = 'live';
  document.addEventListener('visibilitychange', () => main.toggleAttribute('aria-busy', document.hidden));
  setTimeout(look, EVERY_MS);
})();
