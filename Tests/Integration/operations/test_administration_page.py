"""The administration's page in a browser: what an operator sees and does there."""

import contextlib
import http.server
import shutil
import signal
import threading

import pytest

pytest.importorskip("selenium", reason="python3-selenium is not installed: scripts/install-packages")
if not shutil.which("chromedriver"):
    pytest.skip("chromium-driver is not installed: scripts/install-packages", allow_module_level=True)

from selenium.webdriver.common.keys import Keys  # noqa: E402

from support.administration_page import TOKEN, Page, serve_page
from support.browser import Browser
from support.client import IncompleteResponse, get
from support.command_line import favourite_exchange
from support.waiting import eventually


VIEW_TOKEN = "v1ew-only-" * 6


@pytest.fixture(scope="module")
def shared_browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.fixture
def browser(shared_browser, served):
    """A browser that knows nothing of earlier tests. Its console must stay empty, for as long as the gateway is there."""
    shared_browser.driver.get("about:blank")
    shared_browser.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
    shared_browser.forget_complaints()
    shared_browser.requested = []
    yield shared_browser
    try:
        assert shared_browser.complaints() == []
    finally:
        shared_browser.driver.get("about:blank")


@pytest.fixture
def served(start_attested, tmp_path):
    administration, port = serve_page(tmp_path)
    viewers, view_port = serve_page(tmp_path, level="view", token_file=str(tmp_path / "view.token"))
    (tmp_path / "view.token").write_text(VIEW_TOKEN)
    (tmp_path / "view.token").chmod(0o600)
    administration["listeners"] += viewers["listeners"]
    attested = start_attested(administration=administration)
    attested.address = f"http://127.0.0.1:{port}/"
    attested.view_address = f"http://127.0.0.1:{view_port}/"
    return attested


@pytest.fixture
def page(browser, served):
    """The page, signed in."""
    sign_in(browser, served)
    return browser


def sign_in(browser, served):
    browser.driver.get(served.address)
    browser.has("#sign-in", "Token of this listener")
    browser.type("#token", TOKEN)
    browser.press(Keys.ENTER)
    browser.has("#connection", "Live")


def refuse(served):
    """A request that is refused as stale."""
    with served.phone.connect() as client:
        assert client.exchange(served.phone.request(created=1_000_000_000)).status == 401


def confirm(browser, text):
    browser.has("#confirmation-yes", text)
    browser.click("#confirmation-yes")


# Signing in.

def test_the_token_signs_in_and_is_kept_nowhere(browser, served):
    browser.driver.get(served.address)
    browser.has("#sign-in", "Token of this listener")
    browser.type("#token", TOKEN)
    browser.click("#sign-in button")
    browser.has("#connection", "Live")
    assert browser.driver.current_url == served.address
    kept = browser.run("return JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, history.length])")
    assert TOKEN not in kept and kept.startswith("[{},")
    assert TOKEN not in browser.driver.page_source and browser.find("#token").get_attribute("value") == ""
    cookie, = browser.driver.get_cookies()
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict" and TOKEN not in cookie["value"]
    # The page that is loaded again is still signed in; a tab beside is not, for the key is the tab's.
    browser.driver.refresh()
    browser.has("#connection", "Live")
    with browser.window():
        browser.driver.get(served.address)
        browser.has("#sign-in", "Token of this listener")


def test_a_wrong_token_is_reported_and_the_field_keeps_the_focus(browser, served):
    browser.driver.get(served.address)
    browser.has("#sign-in", "Token of this listener")
    browser.type("#token", "x" * 40)
    browser.press(Keys.ENTER)
    browser.has("#sign-in-fault", "That is not the token.")
    assert browser.run("return document.activeElement.id") == "token"
    browser.type("#token", TOKEN)
    browser.press(Keys.ENTER)
    browser.has("#connection", "Live")
    # The browser itself says of each 401 that it was one.
    assert [line for line in browser.complaints() if "401" not in line] == []
    browser.forget_complaints()


def test_signing_out_ends_the_session_and_shows_nothing_more(page, served):
    page.has("#configuration-facts", "Generation")
    page.click("#sign-out")
    page.has("#sign-in", "Token of this listener")
    assert not page.find("#gateway").is_displayed()
    page.driver.refresh()
    page.has("#sign-in", "Token of this listener")


def test_another_token_ends_the_session_and_the_page_says_so(page, served, tmp_path):
    (tmp_path / "token").write_text("an0ther-" * 8)
    served.gateway.signal(signal.SIGHUP)
    page.has("#sign-in-fault", "The session is over")
    assert [line for line in page.complaints() if "401" not in line] == []
    page.forget_complaints()


# Decisions.

def test_a_denial_is_shown_within_a_second_with_its_reason(page, served):
    page.run("""
        window.pauses = []
        const wait = window.setTimeout
        window.setTimeout = (act, pause, ...rest) => { pauses.push(pause); return wait(act, pause, ...rest) }
    """)
    refuse(served)
    page.has("#decision-table tr.refused", "proof_stale")
    page.click("#decision-table tr.refused .expander")
    page.has("#decision-table tr.details", "in the past")
    page.has("#decision-table tr.details", "Whose fault")
    page.has("#reasons", "proof_stale")
    page.has("#decision-table", "device 1")
    # The page waits so long between two questions; how fast this machine answers them decides nothing.
    assert 0 < min(eventually(lambda: page.run("return pauses"), "the page to ask again")) <= 500


def test_decisions_can_be_filtered_and_held(page, served):
    with served.phone.connect() as client:
        assert client.exchange(served.phone.request()).status == 200
    refuse(served)
    page.has("#decision-table", "proof_stale")
    page.has("#decision-table", "forwarded")
    page.run("const kind = document.querySelector('#decision-kind'); kind.value = 'refused'; kind.dispatchEvent(new Event('change'))")
    assert "forwarded" not in page.text("#decision-table tbody") and "proof_stale" in page.text("#decision-table tbody")
    page.type("#decision-text", "no such thing")
    page.has("#no-decisions", "Nothing of what came fits.")
    page.type("#decision-text", "STALE")
    page.has("#decision-table", "proof_stale")
    page.click("#pause")
    refuse(served)
    page.has("#decision-count", "1 came since")
    assert len(page.all("#decision-table tr.refused")) == 1
    page.click("#pause")
    eventually(lambda: len(page.all("#decision-table tr.refused")) == 2, "what was held to be shown")


HOSTILE = "</td><img src=x onerror=violations.push('ran')><script>violations.push('ran')</script>\u202e\x1b[31m\"'&lt;"


def test_what_clients_chose_is_shown_as_text(page, served):
    page.driver.set_script_timeout(20)
    page.driver.execute_async_script("""
        const [text, done] = arguments
        const decision = Object.fromEntries(["client", "route", "method", "decision", "denial", "fault", "sentence", "detail",
            "device", "app", "upstream", "server", "protocol", "trace_id", "status", "event"].map(name => [name, text]))
        Promise.all(["decisions", "status", "devices"].map(name => import(`/${name}.js`))).then(([decisions, status]) => {
            decisions.add([{...decision, number: 1, time: "2026-01-01T00:00:00Z", device_number: text}])
            status.show({
                upstreams: [{name: text, waiting: 1, servers: [{name: text, busy: 1, idle: 1, states: {[text]: 1}}]}],
                certificates: [{listener: text, host: text, role: text, subject: text, expires_at: "2030-01-01T00:00:00Z"}],
                obstacles: [text], generation: text, last_reload: {succeeded: false, at: "2030-01-01T00:00:00Z", reason: text},
                workers: [], listeners: [text], apps: [{id: text, environment: text}], version: text, process: text,
                started_at: "2030-01-01T00:00:00Z"})
            document.querySelector("#decision-table .expander").click()
            done()
        })
    """, HOSTILE)
    page.has("#decision-table", "</td><img src=x onerror=")
    assert page.run("return document.querySelectorAll('main img, main script').length") == 0
    shown = page.run("return document.querySelector('#decision-table').textContent")
    assert "\u202e" not in shown and "\x1b" not in shown and "\ufffd" in shown
    # Nothing ran, and the policy had nothing to forbid.
    assert page.complaints() == []


# Devices.

def test_a_device_is_found_revoked_and_restored_after_asking_once_more(page, served):
    phone, gateway = served.phone, served.gateway
    with phone.connect() as client:
        assert client.exchange(phone.request()).status == 200
    page.click("#device-search button")
    page.has("#device-outcome", "1 found.")
    page.has("#device-table", phone.app)
    page.click("#device-table .danger")
    page.has("#confirmation", "Revoke device 1?")
    page.click("#confirmation .quiet")
    assert '"state":"active"' in gateway.device_command("show", "1", "--json").replace(" ", "")
    page.click("#device-table .danger")
    confirm(page, "Revoke device 1")
    page.has("#device-outcome", "Device 1 is revoked.")
    page.has("#device-table", "revoked")
    with pytest.raises((OSError, IncompleteResponse)), phone.connect() as client:
        client.exchange(phone.request())
    gateway.logged(denial="device_revoked")
    page.has("#decision-table", "device_revoked")
    page.click("#device-table .row-buttons button:last-child")
    confirm(page, "Restore device 1")
    page.has("#device-outcome", "Device 1 is active.")
    with phone.connect() as client:
        assert client.exchange(phone.request()).status == 200
    for act in ["device_revoke", "device_restore"]:
        eventually(lambda: f'"act":"{act}","by":"session ' in gateway.errors, "the acts to be in the audit log")


def test_a_listener_to_look_offers_no_change(browser, served):
    browser.driver.get(served.view_address)
    browser.has("#sign-in", "Token of this listener")
    browser.type("#token", VIEW_TOKEN)
    browser.press(Keys.ENTER)
    browser.has("#connection", "Live")
    for _ in range(2):
        browser.click("#device-search button[type=submit]")
        browser.has("#device-table tbody", "Show")
        browser.has("#configuration-facts", "1 active")
        assert not [each for each in browser.all(".change") if each.is_displayed()] and browser.all(".change")
        # What a tab has kept of its session says nothing of the level.
        browser.driver.refresh()
        browser.has("#connection", "Live")


def test_a_denial_leads_to_its_device(page, served):
    refuse(served)
    page.has("#decision-table", "device 1")
    page.click("#decision-table .link")
    page.has("#device-details", "Key id")
    page.has("#device-details", served.phone.app)
    page.press(Keys.ESCAPE)
    eventually(lambda: not page.find("#device-details").is_displayed(), "the dialog to close")
    assert "link" in page.run("return document.activeElement.className")


def test_devices_are_found_by_number_key_app_and_state(page, served):
    second = served.new_phone()
    served.gateway.device_command("revoke", "2")
    def search(text, state=""):
        page.run("document.querySelector('#device-state').value = arguments[0]", state)
        page.type("#device-text", text)
        page.press(Keys.ENTER)
    for text in ["2", second.key.key_id.hex()]:
        search(text)
        page.has("#device-outcome", "One device.")
        assert len(page.all("#device-table tbody tr")) == 1 and "revoked" in page.text("#device-table tbody")
    refuse(served)
    page.has("#decision-table", "device 1")
    logged = served.gateway.logged(denial="proof_stale")["device"]
    search(logged)
    page.has("#device-outcome", "One device.")
    assert [row.get_attribute("data-device") for row in page.all("#device-table tbody tr")] == ["1"]
    search("0" * 16)
    page.has("#device-outcome", "attestgate device show 0000000000000000")
    search("99")
    page.has("#device-outcome", "There is no such device.")
    for text, state, count in [("", "", 2), ("ORG.EXAMPLE", "", 2), ("", "revoked", 1), ("", "pending", 0), ("nobody", "", 0)]:
        search(text, state)
        page.has("#device-outcome", f"{count} found.")
    # The browser says of the device that is not there that it is not.
    assert [line for line in page.complaints() if "404" not in line] == []
    page.forget_complaints()


# The gateway comes and goes.

def test_the_page_continues_after_a_reload_and_says_so(page, served):
    page.click("#reload")
    confirm(page, "Reload")
    page.has("#notice", "generation 2")
    page.has("#notice", "warning: the app `TEAMID1234.org.example.app` accepts software phones")
    page.has("#configuration-facts", "succeeded")
    served.gateway.signal(signal.SIGHUP)
    page.has("#notice", "generation 3 is served")
    refuse(served)
    page.has("#decision-table", "proof_stale")
    routes = served.gateway.conf["routes"]
    served.gateway.conf["routes"] = [{**routes[0], "upstream": "nowhere"}]
    served.gateway.write_conf()
    page.click("#reload")
    confirm(page, "Reload")
    page.has("#notice", "Not reloaded, nothing has changed")
    page.has("#configuration-facts", "failed")
    assert [line for line in page.complaints() if "422" not in line] == []
    page.forget_complaints()


def test_key_exchanges_are_counted_by_group(page, served):
    page.has("#connection", "Live")
    with served.phone.connect() as client:
        assert client.exchange(served.phone.request(path="/")).status == 200
    page.has("#key-exchanges", f"{favourite_exchange()} ")


def test_old_figures_are_not_shown_while_the_gateway_does_not_answer(page, served):
    figures = "return [...document.querySelectorAll('#figures dd')].map(each => each.textContent)"
    eventually(lambda: "available" in page.run(figures), "the figures")
    served.gateway.halt()
    page.has("#connection", "No answer since")
    eventually(lambda: set(page.run(figures)) == {"–"}, lambda: f"no figure: {page.run(figures)}")
    served.gateway.start()
    page.has("#connection", "Live")
    eventually(lambda: "available" in page.run(figures), lambda: f"figures again: {page.run(figures)}")
    assert [line for line in page.complaints() if "net::ERR_" not in line] == []
    page.forget_complaints()


def test_fetching_a_challenge_is_distinguished_from_an_unknown_route(page, served):
    with served.phone.connect() as client:
        assert client.exchange(get("/.well-known/attestgate/challenge")).status == 204
    page.has("#decision-table", "GET challenge")
    assert "no route" not in page.text("#decision-table")


def test_the_page_stays_signed_in_after_a_restart_and_says_so(page, served):
    refuse(served)
    page.has("#decision-table", "proof_stale")
    served.gateway.halt()
    page.has("#connection", "No answer since")
    # While the page is cut off more is decided than was before: numbers that it knows stand for other decisions now.
    with page.offline():
        served.gateway.start()
        with served.phone.connect() as client:
            for _ in range(4):
                assert client.exchange(get("/")).status == 401
    page.has("#notice", "The gateway was restarted")
    page.has("#connection", "Live")
    eventually(lambda: len(page.all("#decision-table tr.refused")) == 5, lambda: (
        f"all that was refused since the restart: {page.text('#decision-table')}"))
    refuse(served)
    eventually(lambda: len(page.all("#decision-table tr.refused")) == 6, "what is refused from then on")
    assert [line for line in page.complaints() if "net::ERR_" not in line] == []
    page.forget_complaints()


# The page and the world.

def test_the_page_sends_requests_only_to_the_gateway(page, served):
    page.has("#configuration-facts", "Generation")
    page.click("#device-search button")
    page.has("#device-outcome", "found")
    page.read_logs()
    asked = [url for url in page.requested if not url.startswith(("about:", "chrome:", "data:"))]
    assert len(asked) > 10 and all(url.startswith(served.address) for url in asked), set(asked)
    # The control: the browser cannot reach anything else, and the page may not try.
    assert page.fetch("https://example.org/") == "TypeError"
    assert page.run("return violations.length") == 1
    page.run("violations.length = 0")
    page.forget_complaints()


@contextlib.contextmanager
def other_page(body):
    """A page on another port of the same host, which for browsers is the same site. - Returns: its address, and the cookies that it got."""
    cookies = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            cookies.append(self.headers.get("Cookie"))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", cookies
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_page_on_another_port_of_the_host_can_neither_change_nor_read_anything(page, served):
    target = served.address
    body = f"""<iframe src="{target}"></iframe><script src="{target}page.js"></script><script src="{target}decisions"></script>
        <form method="post" action="{target}devices/1/revoke" target="sink"></form><iframe name="sink"></iframe>"""
    with other_page(body) as (address, cookies), page.window():
        page.driver.get(address)
        # It does get the cookie: ports share them. Therefore that is only half of a session.
        stolen = eventually(lambda: next((each for each in cookies if each), None), "the cookie to come")
        outcomes = page.driver.execute_async_script("""
            const [target, done] = arguments
            const post = {method: "POST", credentials: "include"}
            document.forms[0].submit()
            Promise.all([
                fetch(target + "devices/1/revoke", {...post, mode: "no-cors"}).then(each => each.type, each => each.name),
                fetch(target + "devices/1/revoke", post).then(each => each.status, each => each.name),
                fetch(target + "devices/1/revoke", {...post, headers: {"attestgate-page": "x"}}).then(each => each.status, each => each.name),
                fetch(target + "devices", {credentials: "include"}).then(each => each.status, each => each.name),
                fetch(target + "devices", {credentials: "include", mode: "no-cors"}).then(each => each.type, each => each.name),
            ]).then(done)
        """, target)
        # With no-cors it sees at most that there was an answer; otherwise not even that.
        assert all(each in ("TypeError", "opaque") for each in outcomes), outcomes
        assert page.run("try { return frames[0].document.title } catch (fault) { return fault.name }") == "SecurityError"
        page.forget_complaints()
    thief = Page(int(target.rsplit(":", 1)[1].strip("/")))
    for key in [None, "x"]:
        for method, path in [("GET", "/devices"), ("POST", "/devices/1/revoke")]:
            assert thief.code(method, path, cookie=stolen, attestgate_page=key)[0] == 401
    assert '"state":"active"' in served.gateway.device_command("show", "1", "--json").replace(" ", "")
    page.has("#connection", "Live")
    page.forget_complaints()


# For everybody.

def test_every_function_is_usable_by_keyboard(browser, served):
    browser.driver.get(served.address)
    browser.has("#sign-in", "Token of this listener")
    browser.press(TOKEN, Keys.ENTER)
    browser.has("#connection", "Live")

    def go_to(script):
        """Tab by tab, and wherever the focus is it can be seen."""
        for _ in range(60):
            browser.press(Keys.TAB)
            focused = browser.run("""
                const focused = document.activeElement, style = getComputedStyle(focused)
                return {fits: Boolean((%s)(focused)), outline: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
                    name: focused.outerHTML.slice(0, 80)}
            """ % script)
            assert focused["outline"] or focused["name"].startswith("<body"), focused["name"]
            if focused["fits"]:
                return
        raise AssertionError(f"the focus never came to {script}")

    browser.driver.refresh()
    browser.has("#connection", "Live")
    go_to("each => each.classList.contains('skip')")
    browser.press(Keys.ENTER)
    go_to("each => each.id === 'device-text'")
    browser.press("1", Keys.ENTER)
    browser.has("#device-outcome", "One device.")
    go_to("each => each.getAttribute('aria-label') === 'Revoke device 1'")
    browser.press(Keys.ENTER)
    browser.has("#confirmation", "Revoke device 1?")
    # What does harm is not what the focus begins with.
    assert browser.run("return document.activeElement.textContent") == "Cancel"
    go_to("each => each.id === 'confirmation-yes'")
    browser.press(Keys.SPACE)
    browser.has("#device-outcome", "Device 1 is revoked.")
    assert browser.run("return document.activeElement.getAttribute('aria-label')") == "Show device 1"


CONTRAST = """
    const channel = value => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
    const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b)
    const read = text => text.match(/[\\d.]+/g).map(Number)
    const low = []
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    let seen = 0
    while (walker.nextNode()) {
        const parent = walker.currentNode.parentElement
        if (!walker.currentNode.data.trim() || !parent.checkVisibility() || parent.closest("svg, .unseen, noscript")) continue
        let ground = parent
        while (ground && read(getComputedStyle(ground).backgroundColor)[3] === 0) ground = ground.parentElement
        const [a, b] = [getComputedStyle(parent).color, getComputedStyle(ground ?? document.documentElement).backgroundColor]
            .map(each => luminance(read(each))).sort((a, b) => b - a)
        seen += 1
        if ((a + 0.05) / (b + 0.05) < 4.5) low.push(`${((a + 0.05) / (b + 0.05)).toFixed(2)}: ${walker.currentNode.data.trim()}`)
    }
    return [seen, low]
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(page, served, scheme):
    refuse(served)
    page.appearance(scheme)
    try:
        page.click("#device-search button")
        page.has("#decision-table", "proof_stale")
        page.click("#decision-table .expander")
        page.has("#device-table", served.phone.app)
        # WCAG 2.2, 1.4.3. The row that has just come is tinted for a moment.
        page.run("for (const row of document.querySelectorAll('.fresh')) row.classList.remove('fresh')")
        seen, low = page.run(CONTRAST)
        assert seen > 80 and low == []
        page.click("#device-table .danger")
        assert page.run(CONTRAST)[1] == []
        page.press(Keys.ESCAPE)
    finally:
        page.appearance("")


def test_a_screen_reader_finds_names_landmarks_headings_and_news(page, served):
    refuse(served)
    page.click("#device-search button")
    page.has("#device-table", served.phone.app)
    page.has("#decision-table", "proof_stale")
    eventually(lambda: "proof_stale" in page.run("return document.querySelector('#announcement').textContent"), "the announcement")
    nodes = page.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    shown = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"] and "role" in node]
    for role, name in shown:
        if role in ("button", "link", "textbox", "searchbox", "combobox", "dialog", "region", "image", "navigation"):
            assert name.strip(), (role, name)
    roles = {role for role, _ in shown}
    assert {"banner", "main", "navigation", "search", "status", "columnheader"} <= roles, roles
    headings = {name for role, name in shown if role == "heading"}
    assert {"Overview", "Decisions", "Devices", "Upstreams", "Configuration", "Certificates"} <= headings
    assert any(role == "image" and name.startswith("Requests per second: all") for role, name in shown)
    # Colour tells nothing alone: the mark is a word, and each kind has a sign of its own.
    assert page.run("return [...document.querySelectorAll('.mark')].every(each => /^[✓✕!·] [^ ]/.test(each.textContent))")


@pytest.mark.parametrize("width", [360, 1400])
def test_nothing_is_wider_than_the_window(page, served, width):
    refuse(served)
    page.click("#device-search button")
    page.has("#decision-table", "proof_stale")
    page.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False})
    try:
        page.has("#configuration-facts", "Generation")
        assert page.run("return document.documentElement.scrollWidth") <= width
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
