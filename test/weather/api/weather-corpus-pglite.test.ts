import t from 'tap';
import { corpusSample } from './weather-corpus/suite.ts';
import { onPglite } from './weather-worlds.ts';

await onPglite(t, corpusSample);
