"""Chromium without a screen, which reaches nothing but this machine."""

import json
from contextlib import contextmanager

from selenium import webdriver
from selenium.common.exceptions import ElementClickInterceptedException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from support.waiting import eventually

PATHS = {"browser": "/usr/bin/chromium", "driver": "/usr/bin/chromedriver"}


class Browser:
    def __init__(self, directory, width=1400, height=1000):
        options = Options()
        options.binary_location = PATHS["browser"]
        for argument in [
                "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", f"--window-size={width},{height}",
                f"--user-data-dir={directory}", "--disable-background-networking", "--disable-component-update",
                # No name leads anywhere: what is not on this machine cannot be reached.
                "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost"]:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(service=Service(PATHS["driver"]), options=options)
        # Only the page itself hears of what a policy forbids.
        self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": """
            window.violations = []
            addEventListener("securitypolicyviolation", event => violations.push(event.violatedDirective + " " + event.blockedURI))
        """})
        self.console, self.requested = [], []

    def close(self):
        self.driver.quit()

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector):
        """What can be seen of it; nothing of what is hidden."""
        return self.find(selector).text

    def has(self, selector, text):
        """Waits until it is there, and says so."""
        def shown():
            return any(text in (each or "") for each in self.driver.execute_script(
                "return [...document.querySelectorAll(arguments[0])].filter(each => each.checkVisibility()).map(each => each.innerText)",
                selector))
        eventually(shown, lambda: f"{selector} to say {text!r}; it says {[each.text for each in self.all(selector)]}")

    def click(self, selector):
        def clicked():
            place = self.find(selector)
            # What sticks to the top would be clicked in its stead.
            self.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", place)
            try:
                place.click()
            except ElementClickInterceptedException:
                # Figures came in above it meanwhile, and moved it away; nothing was clicked.
                return False
            return True
        eventually(clicked, f"{selector} to be where it can be clicked")

    def type(self, selector, text):
        place = self.find(selector)
        place.clear()
        place.send_keys(text)

    def press(self, *keys):
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def fetch(self, path, **options):
        """A request of the page that is open. - Returns: the status, or the name of what went wrong."""
        return self.driver.execute_async_script(
            "const [path, options, done] = arguments; fetch(path, options).then(each => done(each.status), fault => done(fault.name))",
            path, options)

    def appearance(self, scheme):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def read_logs(self):
        self.console += self.driver.get_log("browser")
        for line in self.driver.get_log("performance"):
            message = json.loads(line["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.requested.append(message["params"]["request"]["url"])

    def complaints(self):
        """What the console says, from warnings up, and what the page's policy forbade."""
        self.read_logs()
        messages = [line["message"] for line in self.console if line["level"] in ("WARNING", "SEVERE")]
        return messages + self.run("return window.violations ?? []")

    def forget_complaints(self):
        self.read_logs()
        self.console = []

    @contextmanager
    def offline(self):
        """Within the block no request leaves the browser."""
        def emulate(is_offline):
            self.driver.execute_cdp_cmd("Network.emulateNetworkConditions", {
                "offline": is_offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1})
        self.driver.execute_cdp_cmd("Network.enable", {})
        emulate(True)
        try:
            yield
        finally:
            emulate(False)

    @contextmanager
    def window(self):
        """A window beside, closed with the block."""
        first = self.driver.current_window_handle
        self.driver.switch_to.new_window("tab")
        try:
            yield
        finally:
            self.driver.close()
            self.driver.switch_to.window(first)


__all__ = ["Browser", "Keys"]
