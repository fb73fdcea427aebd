import tailwindcss from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { globSync } from 'node:fs';
import { defineConfig } from 'vite';
import { chunksOf } from './chunks.ts';

/**
 * What every page needs, and what only those inside do: each as one file, which is smaller than the many that
 * it would be cut into.
 */
const LIBRARIES = [
  {
    name: 'react',
    test: /node_modules[\\/](react|react-dom|scheduler|@tanstack[\\/](react-router|router-core|react-store|store|history))[\\/]/,
  },
  { name: 'query', test: /node_modules[\\/]@tanstack[\\/](react-query|query-core)[\\/]/ },
];

const PAGES = globSync('features/*/page.tsx', { cwd: import.meta.dirname });

/** The page, built once into `dist`, which the server reads into memory. */
export default defineConfig({
  root: import.meta.dirname,
  plugins: [react(), tailwindcss()],
  build: {
    target: 'es2023',
    // The policy of the page allows no inline content, data addresses of scripts included.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // The server tells browsers by it what a page will need.
    manifest: 'build.json',
    rolldownOptions: {
      output: { codeSplitting: { groups: [...LIBRARIES, { name: chunksOf(import.meta.dirname, PAGES) }] } },
    },
  },
});
