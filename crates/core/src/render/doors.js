// Runs before every script of every frame of a rendered page. It closes the ways out of the page that requests do not
// go through, makes the sources of chance depend on the page only, and counts what the page still waits for.
(() => {
  'use strict';
  const SEED = 0;
  const CLICKS = false;
  const MAX_LINKS = 1000;
  const MAX_ROUTES = 200;
  const g = globalThis;
  const apply = Reflect.apply;
  const round = Math.round;
  const timers = new Map();
  const links = [];
  let frames = 0, observed = 0, closed = 0, routes = 0;
  const now = performance.now.bind(performance);
  const setTimer = g.setTimeout.bind(g);
  const set = (owner, key, value) => {
    try { Object.defineProperty(owner, key, { value, writable: true, configurable: true, enumerable: false }); } catch {}
  };
  // A proxy of a native function still looks like one to the page.
  const wrap = (owner, key, handler) => {
    const native = owner && owner[key];
    if (typeof native === 'function') set(owner, key, new Proxy(native, { apply: handler }));
  };
  const noted = new Set();
  const note = (target) => {
    try {
      const url = String(new URL(target, document.baseURI));
      if (links.length < MAX_LINKS && !noted.has(url)) { noted.add(url); links.push(url); }
    } catch {}
  };

  // Timers: which are pending, and when they are due.
  const once = (owner, key, delayOf) => wrap(owner, key, (native, self, args) => {
    const callback = args[0];
    if (typeof callback !== 'function') return apply(native, self, args);
    let id;
    args[0] = function () { timers.delete(id); return apply(callback, this, arguments); };
    id = apply(native, self, args);
    timers.set(id, now() + delayOf(args));
    return id;
  });
  once(g, 'setTimeout', (args) => +args[1] || 0);
  once(g, 'requestIdleCallback', () => 0);
  wrap(g, 'setInterval', (native, self, args) => {
    const id = apply(native, self, args);
    timers.set(id, now() + (+args[1] || 0));
    return id;
  });
  const clear = (key) => wrap(g, key, (native, self, args) => {
    timers.delete(args[0]);
    return apply(native, self, args);
  });
  ['clearTimeout', 'clearInterval', 'cancelIdleCallback'].forEach(clear);

  // Frames: whether the page waits for one.
  const waiting = new Set();
  wrap(g, 'requestAnimationFrame', (native, self, args) => {
    const callback = args[0];
    if (typeof callback !== 'function') return apply(native, self, args);
    let id;
    args[0] = function (time) { waiting.delete(id); return apply(callback, this, [round(time)]); };
    id = apply(native, self, args);
    waiting.add(id);
    return id;
  });
  wrap(g, 'cancelAnimationFrame', (native, self, args) => {
    waiting.delete(args[0]);
    return apply(native, self, args);
  });
  for (const name of ['IntersectionObserver', 'ResizeObserver']) {
    if (g[name]) wrap(g[name].prototype, 'observe', (native, self, args) => { observed = 3; return apply(native, self, args); });
  }

  // Clocks are read in whole milliseconds: the fraction is the time of the machine.
  set(Performance.prototype, 'now', function now_() { return round(now()); });
  const chance = () => {
    let state = (SEED ^ 0x9e3779b9) >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let mixed = Math.imul(state ^ (state >>> 15), state | 1);
      mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
      return (mixed ^ (mixed >>> 14)) >>> 0;
    };
  };
  const forMath = chance();
  set(Math, 'random', function random() { return forMath() / 4294967296; });
  const forCrypto = chance();
  if (g.crypto) {
    const fill = (array) => {
      const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
      for (let i = 0; i < bytes.length; i++) bytes[i] = forCrypto() & 255;
      return array;
    };
    wrap(Crypto.prototype, 'getRandomValues', (native, self, args) => { apply(native, self, args); return fill(args[0]); });
    wrap(Crypto.prototype, 'randomUUID', () => {
      const hex = [...fill(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
      return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20)}`;
    });
  }
  try { Object.defineProperty(Navigator.prototype, 'hardwareConcurrency', { get: () => 4 }); } catch {}

  // Doors.
  const broken = (name) => class extends EventTarget {
    constructor(url) {
      super();
      closed++;
      this.url = String(url);
      this.readyState = name === 'EventSource' ? 2 : 3;
      setTimer(() => {
        for (const type of ['error', 'close']) {
          const event = new Event(type);
          this.dispatchEvent(event);
          const listener = this['on' + type];
          if (typeof listener === 'function') { try { apply(listener, this, [event]); } catch {} }
        }
      }, 0);
    }
    send() {}
    close() {}
  };
  for (const name of ['WebSocket', 'EventSource']) if (g[name]) set(g, name, broken(name));
  for (const name of ['Worker', 'SharedWorker', 'WebTransport', 'WebSocketStream', 'RTCPeerConnection',
    'webkitRTCPeerConnection', 'RTCDataChannel', 'RTCIceTransport', 'PaymentRequest', 'Notification']) {
    if (!(name in g)) continue;
    set(g, name, function () {
      closed++;
      throw new DOMException(name + ' is not available', 'SecurityError');
    });
  }
  set(Navigator.prototype, 'sendBeacon', function sendBeacon() { closed++; return true; });
  for (const name of ['serviceWorker', 'storage', 'locks']) { try { delete Navigator.prototype[name]; } catch {} }
  set(g, 'open', function open(url) { closed++; if (url) note(url); return null; });
  set(g, 'alert', function alert() {});
  set(g, 'print', function print() {});
  set(g, 'confirm', function confirm() { return false; });
  set(g, 'prompt', function prompt() { return null; });
  // A message would reach the crawler with all its arguments.
  for (const name of Object.keys(console)) if (typeof console[name] === 'function') set(console, name, function () {});
  for (const name of ['back', 'forward', 'go']) set(History.prototype, name, function () { closed++; });
  for (const name of ['pushState', 'replaceState']) {
    wrap(History.prototype, name, (native, self, args) => {
      if (++routes > MAX_ROUTES) return undefined;
      if (args.length > 2 && args[2] != null) note(args[2]);
      return apply(native, self, args);
    });
  }

  // Clicks: on elements that act on them, the newest first, because another click may remove them again. Links are not
  // clicked, because their targets are known. A form is sent as it is, by its button or without one: a GET is a link of
  // the page, and all else is refused.
  const MAX_CLICKS = 50;
  const MAX_HANDLERS = 5000;
  const CLICKABLE = 'button,summary,[onclick],[role=button],[role=tab],[role=link],[role=menuitem],input[type=button],' +
    'input[type=submit],input[type=image],form,a:not([href]),a[href^="#"],a[href^="javascript:"]';
  const handlers = new Map();
  const roots = [document];
  const known = new WeakSet();
  const clicked = new WeakMap();
  let clicks = 0, home = null;
  if (CLICKS) {
    wrap(EventTarget.prototype, 'addEventListener', (native, self, args) => {
      if (args[0] === 'click' && self instanceof Element && handlers.size < MAX_HANDLERS) {
        handlers.set(self, (handlers.get(self) || 0) + 1);
      }
      return apply(native, self, args);
    });
    wrap(Element.prototype, 'attachShadow', (native, self, args) => {
      const root = apply(native, self, args);
      roots.push(root);
      return root;
    });
  }
  const pushState = History.prototype.pushState.bind(history);
  // What an element does on a click: if that changes, it is clicked once more.
  const actionOf = (element) => [element.onclick, handlers.get(element) || 0];
  const { matches, closest } = Element.prototype;
  const requestSubmit = HTMLFormElement.prototype.requestSubmit;
  const SENDS = 'button:not([type=button],[type=reset]),input[type=submit],input[type=image]';
  const isForm = (element) => element instanceof HTMLFormElement;
  // The forms that have a button. It is not asked of the form: its fields may have the names of its properties.
  let buttoned = new Set();
  const isOpen = (element) => {
    if (!element.isConnected || element === document.body || element === document.documentElement) return false;
    if (isForm(element) ? buttoned.has(element) : apply(matches, element, ['[type=reset]'])) return false;
    const link = apply(closest, element, ['a[href]']);
    if (link && !/^(#|javascript:)/i.test(link.getAttribute('href'))) return false;
    const before = clicked.get(element);
    if (!before) return true;
    const [onclick, count] = actionOf(element);
    return before.times < 2 && (onclick !== before.action[0] || count !== before.action[1]);
  };
  const noteLinks = () => roots.forEach((root) => root.querySelectorAll('a[href],area[href]').forEach((link) => note(link.href)));
  const click = () => {
    if (home === null) home = location.href;
    else if (location.href !== home) {
      // The click has changed the route. The next one begins at the page again.
      note(location.href);
      pushState(history.state, '', home);
      g.dispatchEvent(new PopStateEvent('popstate', { state: history.state }));
      g.dispatchEvent(new HashChangeEvent('hashchange', { newURL: home }));
    }
    // In document order, one root after the other.
    const follows = (one, other) => (one.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1);
    buttoned = new Set(roots.flatMap((root) => [...root.querySelectorAll(SENDS)].map((button) => button.form)));
    const open = roots.flatMap((root) => {
      const all = new Set(root.querySelectorAll(CLICKABLE));
      for (const element of handlers.keys()) if (element.getRootNode() === root) all.add(element);
      return [...all].filter(isOpen).sort(follows);
    });
    const element = open.find((element) => clicks > 0 && !known.has(element)) || open[0];
    open.forEach((element) => known.add(element));
    if (!element || clicks >= MAX_CLICKS) return JSON.stringify({ ...JSON.parse(probe(0)), clicked: false });
    clicks++;
    clicked.set(element, { times: (clicked.get(element)?.times || 0) + 1, action: actionOf(element) });
    try {
      if (isForm(element)) apply(requestSubmit, element, []);
      else element.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true, composed: true, view: g, detail: 1 }));
    } catch {}
    return JSON.stringify({ ...JSON.parse(probe(0)), clicked: true });
  };

  // What the page still waits for, for the crawler.
  const isFramed = () => { try { return g.length > 0; } catch { return true; } };
  const probe = (end) => {
    const root = document.scrollingElement || document.documentElement;
    const time = now();
    let pending = 0;
    timers.forEach((due) => { if (due <= end) pending++; });
    if (observed > 0) observed--;
    if (clicks > 0) noteLinks();
    return JSON.stringify({
      now: time, pending, frame: waiting.size > 0 || observed > 0, framed: isFramed(), closed,
      loaded: document.readyState === 'complete',
      bottom: root ? root.scrollTop + g.innerHeight : 0, height: root ? root.scrollHeight : 0,
      nodes: document.getElementsByTagName('*').length, links,
    });
  };
  const scroll = () => {
    const root = document.scrollingElement || document.documentElement;
    if (root) root.scrollTop += g.innerHeight;
    observed = 3;
    return probe(0);
  };
  Object.defineProperty(g, Symbol.for('argiope'), { value: Object.freeze({ probe, scroll, click }) });
})();
