import { RouterProvider } from '@tanstack/react-router';
import { startTransition, StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { router } from './router.tsx';
import './style.css';

const root = document.querySelector('#root');
if (root) {
  const show = (): void =>
    // A transition, so that rendering can be interrupted on slow devices.
    startTransition(() =>
      createRoot(root).render(
        <StrictMode>
          <RouterProvider router={router} />
        </StrictMode>,
      ),
    );
  // The static HTML stays until the first page is loaded.
  router.load().then(show, show);
}
