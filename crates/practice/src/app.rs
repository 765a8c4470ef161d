//! A single-page application without a build step: a list and pages of spiders, made by one script from data. And pages
//! whose scripts are hostile.

use std::io;

use crate::response::Response;
use crate::site::Site;

/// Number of spiders.
pub const SPIDERS: usize = 12;

const SHELL: &str = "<!doctype html><title>Loading</title><link rel=stylesheet href=/app.css><div id=app></div><script src=/app.js></script>";

/// Shows the route of the page: the list, with more at the end of the page, or one spider.
const APP: &str = r#"'use strict';
const app = document.getElementById('app');
const link = (path, text) => `<a href="${path}">${text}</a>`;
const get = (path) => fetch(path).then((response) => response.json());
class SpiderName extends HTMLElement {
  connectedCallback() {
    this.attachShadow({ mode: 'closed' }).innerHTML = link('/from-shadow', 'about names');
  }
}
customElements.define('spider-name', SpiderName);
const list = async () => {
  document.title = 'Spiders';
  const spiders = await get('/api/spiders.json');
  app.innerHTML = '<h1>All spiders</h1><ul id=list></ul><div style="height:1500px"></div><div id=more></div>';
  const half = spiders.length / 2;
  const add = (some) => some.forEach((spider) => document.getElementById('list').insertAdjacentHTML(
    'beforeend', `<li>${link('/spider/' + spider.id, spider.name)}</li>`));
  add(spiders.slice(0, half));
  new IntersectionObserver((entries, observer) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    add(spiders.slice(half));
  }).observe(document.getElementById('more'));
};
const spider = async (id) => {
  const spider = await get('/api/spider/' + id + '.json');
  setTimeout(() => {
    document.title = spider.name;
    app.innerHTML = `<h1>${spider.name}</h1><p>${spider.text}</p><spider-name></spider-name>${link('/', 'all')}`;
  }, 3000);
};
const [, kind, id] = location.pathname.split('/');
kind === 'spider' ? spider(id) : list();
"#;

/// A page whose links and requests begin with clicks. The last button must not be clicked before what it removes.
const CLICKS: &str = r##"<!doctype html><title>Clicks</title>
<a href="/from-shadow">a link, which is not clicked</a>
<button id=show>more</button> <div id=tab>tab</div> <a href="#/route">route</a> <button id=post>delete</button>
<form action="/form"><button>send</button></form> <form action="/sent" method=post><input name=a></form> <button id=remove>remove</button><p id=place></p>
<script>
const get = (id) => document.getElementById(id), place = get('place');
get('show').onclick = () => { place.innerHTML = '<button id=second>second</button>';
  get('second').addEventListener('click', () => fetch('/asked-by-click')); };
get('tab').addEventListener('click', () => { place.innerHTML = '<a href="/in-tab">in the tab</a>'; });
get('post').onclick = () => fetch('/changed-by-click', { method: 'POST' });
get('remove').onclick = () => document.body.remove();
addEventListener('hashchange', () => setTimeout(() => { place.innerHTML = location.hash === '#/route' ? '<a href="/in-route">x</a>' : ''; }, 50));
</script>"##;

/// Pages whose scripts are hostile: path and body.
const HOSTILE: [(&str, &str); 10] = [
    ("/hostile/loop", "<script>while (true);</script>"),
    ("/hostile/memory", "<script>const kept = []; while (true) kept.push(new Uint8Array(1 << 26).fill(7));</script>"),
    (
        "/hostile/dialogs",
        "<script>for (let i = 0; i < 1e4; i++) { alert(i); confirm(i); prompt(i); print(); }</script>",
    ),
    ("/hostile/windows", "<script>for (let i = 0; i < 1e4; i++) open('/window/' + i % 3);</script>"),
    (
        "/hostile/history",
        "<script>for (let i = 0; i < 1e5; i++) history.pushState(0, '', '#' + i); history.back();</script>",
    ),
    ("/hostile/away", "<p>kept</p><script>location = '/away-by-script';</script>"),
    (
        "/hostile/requests",
        "<script>const next = (n) => fetch('/endless/' + n).finally(() => next(n + 1)); next(0);</script>",
    ),
    // Ends the process of the page: memory is collected only after the call.
    (
        "/hostile/path",
        "<div id=all></div><script>document.getElementById('all').innerHTML = '<p>'.repeat(4000);\n\
         document.evaluate('count(//p[count(//p[count(//p) > 1]) > 1])', document, null, 1, null);</script>",
    ),
    ("/hostile/console", "<script>const text = 'x'.repeat(1e6); for (;;) console.log(text, text);</script>"),
    (
        "/hostile/doors",
        "<script>for (const address of ['http://127.0.0.1:1/', 'http://169.254.169.254/', 'file:///etc/passwd', \
         'chrome://version/']) fetch(address).catch(() => 0);\n\
         for (const open of [() => new WebSocket('ws://127.0.0.1:1/'), () => new EventSource('/events'), \
         () => new RTCPeerConnection(), () => new Worker('/worker.js'), () => new SharedWorker('/worker.js'), \
         () => navigator.sendBeacon('/beacon'), () => navigator.serviceWorker.register('/worker.js')]) \
         { try { open(); } catch {} }\n\
         document.body.append('all tried');</script>",
    ),
];

/// The paths of the hostile pages.
pub fn hostile_paths() -> impl Iterator<Item = &'static str> {
    HOSTILE.iter().map(|(path, _)| *path)
}

/// The application, on a loopback address such as `127.0.0.1:0`.
pub fn app(address: &str) -> io::Result<Site> {
    let json = |text: String| Response::text(text).content_type("application/json");
    let name = |number: usize| format!("Spider No. {number}");
    let list: Vec<String> =
        (1..=SPIDERS).map(|number| format!(r#"{{"id":{number},"name":"{}"}}"#, name(number))).collect();
    let mut site = Site::http(address)?
        .robots("User-agent: *\nDisallow: /private/\n")
        .page("/", Response::html(SHELL))
        .page("/clicks", Response::html(CLICKS))
        .page("/from-shadow", Response::html("<title>Names</title><p>Names of spiders.</p>"))
        .page("/app.js", Response::text(APP).content_type("text/javascript"))
        .page("/app.css", Response::text("body { margin: 2em }").content_type("text/css"))
        .page("/api/spiders.json", json(format!("[{}]", list.join(","))));
    for number in 1..=SPIDERS {
        let text = format!("This is {}. It builds a web of its own.", name(number));
        let spider = format!(r#"{{"name":"{}","text":"{text}"}}"#, name(number));
        site = site.page(&format!("/spider/{number}"), Response::html(SHELL));
        site = site.page(&format!("/api/spider/{number}.json"), json(spider));
    }
    for (path, body) in HOSTILE {
        site = site.page(path, Response::html(format!("<!doctype html><title>{path}</title><body>{body}")));
    }
    Ok(site)
}
