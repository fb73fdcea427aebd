import tailwindcss from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { globSync } from 'node:fs';
import { defineConfig } from 'vite';
import { chunkGroups } from './chunks.ts';
import { docsSite } from './docs-site/plugin.ts';

/**
 * Libraries of all pages, and of pages with a session: one chunk each, which is smaller than many small ones.
 */
const LIBRARIES = [
  {
    name: 'react',
    priority: 10,
    test: new RegExp(
      String.raw`node_modules[\\/](${[
        'react',
        'react-dom',
        'scheduler',
        String.raw`@tanstack[\\/](react-router|router-core|react-store|store|history)`,
      ].join('|')})[\\/]`,
    ),
  },
  { name: 'query', priority: 10, test: /node_modules[\\/]@tanstack[\\/](react-query|query-core)[\\/]/ },
];

const PAGES = globSync('features/*/page.tsx', { cwd: import.meta.dirname });

/** Builds the dashboard into `dist`, which the server reads into memory. */
export default defineConfig({
  root: import.meta.dirname,
  plugins: [react(), tailwindcss(), docsSite()],
  build: {
    target: 'es2023',
    // The content security policy allows no inline content or data URLs of scripts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // The server preloads a page's chunks by this manifest.
    manifest: 'build.json',
    rolldownOptions: {
      output: { codeSplitting: { groups: [...LIBRARIES, ...chunkGroups(import.meta.dirname, PAGES)] } },
    },
  },
});
