// Opens pages of `-o html` in Chromium, uses them as a person would, and checks them with axe-core.
// Arguments: a directory with the pages `*.html`. Screenshots are written beside them.
import assert from "node:assert/strict";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const directory = resolve(process.argv[2]);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });

// Opens a page. Messages on the console, errors and requests are recorded.
const open = async (file, options = {}) => {
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, ...options });
  const page = await context.newPage();
  const url = pathToFileURL(file).href;
  const troubles = [];
  page.on("console", (message) => troubles.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => troubles.push(`error: ${error}`));
  page.on("request", (request) => request.url() === url || request.url() === "data:," || troubles.push(`request: ${request.url()}`));
  await page.goto(url);
  return { page, troubles, close: () => context.close() };
};

const violations = async (page) => {
  await page.evaluate(axe);
  const found = await page.evaluate(() => axe.run());
  return found.violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).slice(0, 3).join(" | ")}`);
};

const visible = (page) => page.locator("li[data-tag]:not(.filtered)").count();
const found = async (page) => Number((await page.locator("output").textContent()).split(" ")[0]);

const use = async (page) => {
  const all = await page.locator("li[data-tag]").count();
  assert.equal(await found(page), all);
  assert.ok(all > 0, "the page lists objects");

  const name = await page.locator("li[data-tag] strong").last().textContent();
  await page.keyboard.press("/");
  await page.keyboard.type(name.toUpperCase());
  assert.ok(await found(page) >= 1 && await found(page) < all, `a search finds ${name} and hides others`);
  assert.ok(await visible(page) >= await found(page), "what is above a match stays visible");
  await page.keyboard.press("Escape");
  assert.equal(await found(page), all, "Escape clears the search");
  await page.getByRole("searchbox").fill("no such object");
  assert.equal(await found(page), 0);
  assert.equal(await page.locator(".owner:not(.filtered)").count(), 0, "owners without a match are hidden");
  await page.getByRole("searchbox").fill("");

  const tag = page.locator("[data-show]").first();
  const shown = await tag.getAttribute("data-show");
  const tagged = await page.locator(`li[data-tag="${shown}"]`).count();
  await tag.focus();
  await page.keyboard.press("Space");
  assert.equal(await found(page), tagged, "a pressed tag shows its rows");
  await page.keyboard.press("Enter");
  assert.equal(await found(page), all, "no tag is pressed");

  const kind = await page.locator("li[data-kind]").first().getAttribute("data-kind");
  await page.getByLabel("kind").selectOption(kind);
  assert.equal(await found(page), await page.locator(`li[data-kind="${kind}"]`).count());
  await page.getByLabel("kind").selectOption("");

  await page.getByRole("button", { name: "Collapse all" }).click();
  assert.equal(await page.locator("details[open]").count(), 0);
  await page.getByRole("button", { name: "Expand all" }).click();
  assert.equal(await page.locator("details:not([open])").count(), 0);
  const fold = page.locator(".owner summary").first();
  await fold.focus();
  await page.keyboard.press("Enter");
  assert.equal(await page.locator(".owner > details").first().getAttribute("open"), null, "Enter folds an owner");
  // What is folded is printed too, and folded again afterwards.
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  assert.equal(await page.locator("details:not([open])").count(), 0);
  await page.evaluate(() => dispatchEvent(new Event("afterprint")));
  assert.equal(await page.locator("details:not([open])").count(), 1);
  await fold.click();
};

// Returns the milliseconds from the first key of a search to the next frame that shows its result.
const firstSearch = async (file) => {
  const { page, close } = await open(file);
  const name = await page.locator("li[data-tag] strong").last().textContent();
  const milliseconds = await page.evaluate((text) => new Promise((done) => {
    const box = document.querySelector("input[type=search]");
    const start = performance.now();
    box.value = text;
    box.dispatchEvent(new Event("input", { bubbles: true }));
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - start)));
  }), name);
  const rows = await page.locator("li[data-tag]").count();
  await close();
  return `${rows} rows, first search ${Math.round(milliseconds)} ms`;
};

for (const file of readdirSync(directory).filter((name) => name.endsWith(".html"))) {
  const path = join(directory, file);
  const shot = (look) => path.replace(/\.html$/, `-${look}.png`);
  for (const colorScheme of ["light", "dark"]) {
    const { page, troubles, close } = await open(path, { colorScheme });
    await use(page);
    assert.deepEqual(await violations(page), [], `${file}, ${colorScheme}: axe-core`);
    await page.screenshot({ path: shot(colorScheme), fullPage: true });
    if (colorScheme === "light") writeFileSync(path.replace(/\.html$/, ".pdf"), await page.pdf());
    assert.deepEqual(troubles, [], file);
    await close();
  }
  const narrow = await open(path, { viewport: { width: 360, height: 800 } });
  const width = await narrow.page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(width <= 360, `${file}: ${width} pixels wide in a window of 360`);
  await narrow.page.screenshot({ path: shot("narrow") });
  assert.equal(await narrow.page.getByLabel("kind").isVisible(), false, "the filters are folded");
  await narrow.page.getByRole("button", { name: "Filters" }).click();
  assert.ok(await narrow.page.getByLabel("kind").isVisible(), "and open with their button");
  await narrow.close();
  const plain = await open(path, { javaScriptEnabled: false });
  assert.equal(await plain.page.locator(".filters").isVisible(), false, "filters need the script");
  assert.ok(await plain.page.locator("li[data-tag]").first().isVisible(), "objects do not");
  assert.deepEqual(plain.troubles, []);
  await plain.close();
  console.log(`${file}: used in light and dark, axe-core clean, no request; ${await firstSearch(path)}`);
}
await browser.close();
