//! A site with a login form. The pages for members require the cookie that a successful login sets.

use std::io;

use crate::response::Response;
use crate::site::{RequestMatch, Site};

/// The name and the password that the form accepts.
pub const MEMBER: (&str, &str) = ("argiope", "orb & web");

/// Number of order pages, which only members see.
pub const ORDERS: usize = 3;

const TOKEN: &str = "t0k3n";
const COOKIE: &str = "session=silk";

/// The site, on a loopback address such as `127.0.0.1:0`.
pub fn members(address: &str) -> io::Result<Site> {
    Ok(with_pages(Site::http(address)?))
}

/// Adds the pages of the site.
pub fn with_pages(site: Site) -> Site {
    let form = format!(
        "<title>Log in</title><form id=login method=post action=/session>\
         <input type=hidden name=token value={TOKEN}><input name=name><input type=password name=password>\
         <input type=checkbox name=remember value=yes><button>Log in</button></form>"
    );
    let orders: String = (1..=ORDERS).map(|order| format!("<li><a href=/orders/{order}>Order {order}</a>")).collect();
    let account = Response::html(format!("<title>Your account</title><h1>Your account</h1><ul>{orders}</ul>"));
    let to_login = Response::redirect("/login", 302);
    let logged_in = Response::redirect("/account", 303).header("Set-Cookie", format!("{COOKIE}; Path=/; HttpOnly"));
    // The password of MEMBER, form-encoded.
    let accepted_body = format!("token={TOKEN}&name={}&password=orb+%26+web", MEMBER.0);
    let mut site = site
        .page("/", Response::links(["/login"]))
        .page("/login", Response::html(form))
        .when(RequestMatch::post("/session").body(&accepted_body), logged_in)
        .when(RequestMatch::post("/session"), Response::html("<title>Wrong password</title>").with_status(403))
        .when(RequestMatch::get("/account").cookie(COOKIE), account)
        .page("/account", to_login.clone());
    for order in 1..=ORDERS {
        let path = format!("/orders/{order}");
        let page = Response::html(format!("<title>Order {order}</title><p>{order} webs"));
        site = site.when(RequestMatch::get(&path).cookie(COOKIE), page).page(&path, to_login.clone());
    }
    site
}
