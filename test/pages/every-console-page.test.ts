import { lookAtPages } from './look-at-pages.ts';
import { pagesOf } from './page-sets.ts';

lookAtPages(pagesOf.console);
