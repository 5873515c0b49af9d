import { svelte } from '@sveltejs/vite-plugin-svelte';
import { loadEnv } from 'vite';
import { defineConfig } from 'vitest/config';

export default defineConfig(({ mode }) => ({
  plugins: [svelte()],
  build: {
    target: 'es2022',
    // What the content security policy of the API allows: files of this origin, nothing inline.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  // Else tests would see empty files.
  test: { css: true },
  server: {
    // npm run dev: the page from the sources, the data from a controller's API.
    proxy: { '/v1': loadEnv(mode, '.', 'WEIR_')['WEIR_API'] ?? 'http://127.0.0.1:8181' },
  },
}));
