// Builds a small application with each framework, serves them on loopback, crawls them with and without rendering, and
// compares what was found. Usage: node check.mjs ARGIOPE, in a folder where the packages are installed.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import * as esbuild from 'esbuild';
import { compile } from 'svelte/compiler';

const ENTRIES = ['react.jsx', 'preact.js', 'vue.js', 'svelte.js', 'solid.js', 'lit.js', 'angular.ts'];
const ITEMS = [1, 2, 3].map((id) => ({ id, name: `Item ${id}` }));

const svelte = {
  name: 'svelte',
  setup: (build) =>
    build.onLoad({ filter: /\.svelte$/ }, ({ path: file }) => ({
      contents: compile(readFileSync(file, 'utf8'), { filename: file }).js.code,
    })),
};

const bundle = async (entry) => {
  const { outputFiles } = await esbuild.build({
    entryPoints: [path.join('src', entry)], bundle: true, minify: true, write: false, plugins: [svelte],
    conditions: ['browser'], mainFields: ['browser', 'module', 'main'], logLevel: 'error',
    define: { 'process.env.NODE_ENV': '"production"', __VUE_OPTIONS_API__: 'true', __VUE_PROD_DEVTOOLS__: 'false',
      __VUE_PROD_HYDRATION_MISMATCH_DETAILS__: 'false' },
    tsconfigRaw: { compilerOptions: { experimentalDecorators: true, useDefineForClassFields: false } },
  });
  return outputFiles[0].text;
};

const scripts = new Map();
for (const entry of ENTRIES) scripts.set(entry.split('.')[0], await bundle(entry));

const server = http.createServer((request, response) => {
  const [, name, kind, last = ''] = request.url.split('/');
  const send = (type, text) => response.setHeader('Content-Type', type).end(text);
  if (!scripts.has(name)) return response.writeHead(404).end();
  if (kind === 'app.js') return send('text/javascript', scripts.get(name));
  if (kind === 'api') {
    const item = ITEMS.find(({ id }) => `${id}.json` === last);
    return send('application/json', JSON.stringify({ name: item ? item.name : 'All items', items: item ? [] : ITEMS }));
  }
  return send('text/html', `<!doctype html><title>Loading</title><div id=app></div><script src=/${name}/app.js></script>`);
});
await new Promise((done) => server.listen(0, '127.0.0.1', done));

const folder = mkdtempSync(path.join(tmpdir(), 'frameworks-'));
const crawl = (name, render) => new Promise((done, fail) => {
  const root = `http://127.0.0.1:${server.address().port}/${name}/`;
  const directory = path.join(folder, `${name}-${render}.crawl`);
  const child = spawn(process.argv[2], ['crawl', root, '-d', directory, '--jsonl', '-', '-q', '--render', render]);
  let text = '';
  child.stdout.on('data', (data) => (text += data));
  child.stderr.pipe(process.stderr);
  child.on('error', fail);
  child.on('close', (code) => {
    if (code !== 0) return fail(new Error(`${name}: the crawl ended with ${code}`));
    const records = text.split('\n').filter(Boolean).map((line) => JSON.parse(line));
    done(records.filter((record) => record.type === 'page').map((record) => `${record.title} / ${record.h1 ?? ''}`).sort());
  });
});

const expected = ['All items', ...ITEMS.map(({ name }) => name)].map((title) => `${title} / ${title}`).sort();
let failures = 0;
for (const name of scripts.keys()) {
  const [plain, rendered] = [await crawl(name, 'never'), await crawl(name, 'always')];
  const isRight = plain.length === 1 && JSON.stringify(rendered) === JSON.stringify(expected);
  if (!isRight) failures++;
  console.log(`${isRight ? 'ok    ' : 'FAILED'} ${name}: ${plain.length} page without scripts, with them ${rendered.join(', ')}`);
}
server.close();
rmSync(folder, { recursive: true });
process.exit(failures ? 1 : 0);
