//! The page in headless Chromium.

use crate::browser::Browser;
use crate::served::serve;
use argiope_core::crawl::control::Control;
use argiope_core::crawl::rules::Pace;

#[test]
#[ignore = "needs chromedriver"]
fn the_page_updates_and_its_controls_work() {
    let browser = Browser::start();
    let (server, crawl) = serve(None);
    browser.open(&format!("http://{}/live", server.address()));
    browser.wait("document.getElementById('state').textContent === 'running'");
    let pages = "Number(document.getElementById('pages').textContent.replaceAll(',', ''))";
    let before = browser.run(&format!("return {pages}"));
    browser.wait(&format!("{pages} > {before}"));
    browser.wait("document.querySelector('#chart polyline')");

    // Text from the crawled site is shown, not executed.
    browser.wait("document.getElementById('error-rows').textContent.includes('<img src=x')");
    assert_ne!(browser.run("return document.title"), "owned");
    assert_eq!(browser.run("return document.querySelectorAll('img').length"), 0);

    browser.click("#pause");
    browser.wait("document.getElementById('state').textContent === 'paused'");
    browser.click("#resume");
    browser.wait("document.getElementById('state').textContent === 'running'");
    browser.run(
        "const pace = document.getElementById('pace'); pace.value = 'gentle'; pace.dispatchEvent(new Event('change'))",
    );
    browser.write("#rate", "5");
    browser.click("#rate-form button");
    browser.wait("document.getElementById('rate').placeholder === '5'");
    browser.click("#host-rows button");
    browser.wait("document.getElementById('confirm').open");
    assert_eq!(
        browser.run("return document.getElementById('question').textContent"),
        "Fetch nothing from h.example from now on?"
    );
    browser.click("#confirm-yes");
    browser.wait("!document.getElementById('excludes-section').hidden");
    browser.write("#exclude", "/private");
    browser.click("#exclude-form button");
    browser.click("#confirm-yes");
    browser.wait("document.getElementById('excludes').children.length === 2");
    browser.write("#explain-url", "http://h.example/x");
    browser.click("#explain-form button");
    browser.wait("document.getElementById('explanation').textContent.includes('<b>once</b>')");
    browser.click("#stop");
    browser.click("#confirm-yes");
    browser.wait("document.getElementById('state').textContent === 'draining'");

    let controls = crawl.controls.lock().expect("no panic").clone();
    assert_eq!(controls.len(), 7, "{controls:?}");
    assert!(controls.contains(&Control::Pace { pace: Pace::Gentle }), "{controls:?}");
    assert!(controls.contains(&Control::Exclude { pattern: "/private".into() }), "{controls:?}");
    assert_eq!(browser.log_messages(), Vec::<String>::new());
}

#[test]
#[ignore = "needs chromedriver"]
fn the_page_shows_the_processes_of_a_shared_crawl() {
    let browser = Browser::start();
    let (server, crawl) = serve(None);
    browser.open(&format!("http://{}/live", server.address()));
    browser.wait("document.getElementById('state').textContent === 'running'");
    assert_eq!(browser.run("return document.getElementById('fleet-section').hidden"), true);
    crawl.is_shared.store(true, std::sync::atomic::Ordering::Relaxed);
    browser.wait("!document.getElementById('fleet-section').hidden");
    let rows = browser.run("return [...document.getElementById('process-rows').rows].map((row) => row.innerText)");
    let rows: Vec<&str> = rows.as_array().expect("a list").iter().filter_map(|row| row.as_str()).collect();
    assert!(rows.len() == 2 && rows[0].starts_with("aaa (this one)\t30\t"), "{rows:?}");
    assert!(rows[1].starts_with("<b>bbb</b>\t30\t0\t0\t12 s ago\tsilent"), "{rows:?}");
    let summary = browser.run("return document.getElementById('fleet').textContent");
    let summary = summary.as_str().expect("text");
    assert!(summary.starts_with("Round 2. 50.5 pages a second in all; 1,234 URLs queued"), "{summary}");
    assert!(summary.ends_with("60 of 64 buckets have an owner."), "{summary}");
    assert_eq!(browser.log_messages(), Vec::<String>::new());
}

#[test]
#[ignore = "needs chromedriver"]
fn tabs_share_one_event_stream() {
    let browser = Browser::start();
    let (server, _crawl) = serve(None);
    let url = format!("http://{}/live", server.address());
    // A browser allows six connections to an origin: with a stream for each tab, the seventh would wait forever.
    browser.open(&url);
    for _ in 0..8 {
        browser.new_tab();
        browser.open(&url);
        browser.wait("document.getElementById('state').textContent === 'running'");
    }
    browser.click("#pause");
    browser.wait("document.getElementById('state').textContent === 'paused'");
}

#[test]
#[ignore = "needs chromedriver"]
fn a_browser_logs_in_with_the_token() {
    let browser = Browser::start();
    let (server, _crawl) = serve(Some("0123456789abcdef0123"));
    browser.open(&format!("http://{}/", server.address()));
    browser.wait("location.pathname === '/login'");
    browser.write("input", "0123456789abcdef0123");
    browser.click("button");
    browser.wait("location.pathname === '/live' && document.getElementById('state').textContent === 'running'");
    browser.click("#pause");
    browser.wait("document.getElementById('state').textContent === 'paused'");
}

#[test]
#[ignore = "needs chromedriver, axe"]
fn the_pages_are_accessible() {
    let browser = Browser::start();
    let (server, crawl) = serve(None);
    // The page with all of its sections.
    crawl.is_shared.store(true, std::sync::atomic::Ordering::Relaxed);
    browser.open(&format!("http://{}/live", server.address()));
    browser.wait("document.getElementById('error-rows').textContent.includes('<img src=x')");
    browser.wait("document.querySelector('#chart polyline') && !document.getElementById('fleet-section').hidden");
    browser.write("#exclude", "/private");
    browser.click("#exclude-form button");
    browser.click("#confirm-yes");
    browser.wait("document.getElementById('excludes').children.length === 1");
    browser.write("#explain-url", "http://h.example/x");
    browser.click("#explain-form button");
    browser.wait("document.getElementById('explanation').textContent.includes('<b>once</b>')");
    assert_eq!(browser.accessibility_violations(), Vec::<String>::new());

    let (server, _crawl) = serve(Some("0123456789abcdef0123"));
    browser.open(&format!("http://{}/", server.address()));
    browser.wait("location.pathname === '/login'");
    assert_eq!(browser.accessibility_violations(), Vec::<String>::new());
}
