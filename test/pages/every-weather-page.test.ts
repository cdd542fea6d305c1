import { lookAtPages } from './look-at-pages.ts';
import { pagesOf } from './page-sets.ts';
import { hostileWeatherPages } from './weather-pages.ts';

lookAtPages([...pagesOf.weather, hostileWeatherPages]);
