// Bundles src/ into a folder: `node bundle.mjs <folder>`. The same sources and lock give the same bytes. See build.
import { build } from 'esbuild';
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { gzipSync } from 'node:zlib';

const [out] = process.argv.slice(2);
/** Maximum size of a first download, compressed. */
const MOST_BYTES = 300_000;
/** Licences that dependencies may have, like those in deny.toml. */
const LICENCES = ['MIT', 'ISC', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', '0BSD', '(MIT OR Apache-2.0)'];

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
const { metafile } = await build({
  entryPoints: { console: 'src/main.tsx' },
  entryNames: '[name]-[hash]',
  outdir: out,
  bundle: true,
  minify: true,
  format: 'esm',
  jsx: 'automatic',
  // The first versions with `light-dark()`.
  target: ['chrome123', 'firefox120', 'safari17.5'],
  define: { 'process.env.NODE_ENV': '"production"' },
  legalComments: 'none',
  metafile: true,
});

const made = Object.keys(metafile.outputs).map(path => basename(path));
const of = end => made.find(name => name.endsWith(end));
const page = readFileSync('src/index.html', 'utf8').replace('{style}', of('.css')).replace('{script}', of('.js'));
writeFileSync(join(out, 'index.html'), page.replaceAll(/<!--.*?-->\n/gs, ''));

// The bundled packages and their licences.
const packages = new Map();
for (const path of Object.keys(metafile.inputs)) {
  const folder = /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0];
  if (folder) packages.set(folder, JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')));
}
const byText = new Map();
for (const [folder, { name, version, license }] of packages) {
  if (!LICENCES.includes(license)) throw new Error(`${name} is under ${license}, which is not in LICENCES`);
  const file = readdirSync(folder).find(file => /^licen[cs]e/i.test(file));
  const text = file ? readFileSync(join(folder, file), 'utf8').trim() : license;
  byText.set(text, [...(byText.get(text) ?? []), `${name} ${version} (${license})`]);
}
const notices = [...byText].map(([text, names]) => `${names.sort().join('\n')}\n\n${text}\n`).sort();
writeFileSync(join(out, 'licences.txt'), `The console has these in it.\n\n${notices.join('\n---\n\n')}`);

const sizes = [...made, 'index.html'].map(name => gzipSync(readFileSync(join(out, name)), { level: 9 }).length);
const size = sizes.reduce((sum, size) => sum + size, 0);
console.log(`${out}: ${size} bytes compressed`);
if (size > MOST_BYTES) throw new Error(`more than ${MOST_BYTES}`);
