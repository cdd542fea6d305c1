import { anywhere } from '../../oracle-world.ts';
import { measured } from './expected-observations.ts';
import type { Maker, Rows } from './world.ts';

const letters = ['V', 'C', 'S', 'X', 'B', 'Q', 'Z'];
const amounts = ['SKC', 'CLR', 'FEW', 'SCT', 'BKN', 'OVC', 'VV'];

export function observationRows(make: Maker): Rows {
  const stations = Array.from({ length: 250 }, (_, n) => stationRow(make, n));
  // Adjacent stations, for answers that combine several of them.
  for (let n = 0; n < 150; n += 1) {
    const { latitude_deg, longitude_deg } = make.oneOf(stations);
    Object.assign(make.oneOf(stations), {
      latitude_deg: Math.max(-90, Math.min(90, latitude_deg + make.between(-0.4, 0.4))),
      longitude_deg: Math.max(-180, Math.min(180, longitude_deg + make.between(-0.4, 0.4))),
    });
  }
  const observations = stations.flatMap(({ station_id }) => {
    const moments = Array.from({ length: make.whole(0, 8) }, () => make.moment(-600, 50));
    return [...new Set(moments)].map((observed_at) => observationRow(make, { station_id, observed_at }));
  });
  const parts = (most: number, part: () => object): object[] =>
    observations.flatMap(({ station_id, observed_at }) =>
      make.random() < 0.5
        ? []
        : Array.from({ length: make.whole(1, most) }, (_, n) => ({
            station_id,
            observed_at,
            position: n + 1,
            ...part(),
          })),
    );
  return {
    stations,
    observations,
    observation_weather: parts(3, () => ({
      intensity: make.some(make.oneOf(['light', 'heavy'])),
      modifier: make.some(make.oneOf(['freezing', 'showers'])),
      phenomenon: make.oneOf(['rain', 'snow', 'fog_mist']),
      raw: make.oneOf(['-RA', 'BR', 'VCSH']),
      in_vicinity: make.random() < 0.3,
    })),
    observation_clouds: parts(4, () => ({
      amount: make.oneOf(amounts),
      base_m: make.some(make.decimal(0, 9000)),
    })),
  };
}

function stationRow(make: Maker, n: number) {
  const { latitude, longitude } = anywhere(make);
  return {
    station_id: `S${String(n).padStart(4, '0')}`,
    name: make.text('station'),
    latitude_deg: latitude,
    longitude_deg: longitude,
    elevation_m: make.some(make.decimal(-400, 5000)),
    time_zone: make.oneOf(['UTC', 'America/Chicago', 'Asia/Tokyo']),
    state: make.some('AK'),
  };
}

/** Sometimes one that is impossible near the ground, but is in the table. */
function observationRow(make: Maker, key: { station_id: string; observed_at: string }) {
  const isSilent = make.random() < 0.1;
  const some = (value: number): number | null => (isSilent ? null : make.some(value, 0.3));
  const rarely = (usual: number, odd: number): number => (make.random() < 0.06 ? odd : usual);
  const temperature = make.oneOf([
    make.decimal(-45, 45),
    make.decimal(-30, 12),
    make.decimal(25, 31),
    rarely(make.decimal(26, 45), make.oneOf([-95.5, 61, 149, 10, 26.7])),
  ]);
  // Hot and moist, hot and dry, at the limits of the formulas, or above the temperature.
  const below = make.oneOf([
    0,
    -0.5,
    -1,
    -1.4,
    -1.9,
    make.decimal(0, 3),
    make.decimal(0, 5),
    make.decimal(0, 60),
  ]);
  const dewpoint = Math.max(-140, temperature - below);
  // Calm, at most three miles per hour, or little more.
  const speed = make.oneOf([
    0,
    4.8,
    4.9,
    7,
    make.decimal(0, 12),
    make.decimal(0, 90),
    make.decimal(0, 90),
    rarely(20, 411),
  ]);
  const numbers: Record<string, number | null> = {
    temperature_c: some(temperature),
    dewpoint_c: some(dewpoint),
    relative_humidity_pct: some(make.decimal(0, 100)),
    wind_direction_deg: some(make.decimal(0, 360)),
    wind_speed_kmh: some(speed),
    wind_gust_kmh: some(rarely(make.decimal(0, 150), 450)),
    altimeter_pa: some(rarely(make.decimal(95_000, 105_000), make.oneOf([84_000, 110_000]))),
    sea_level_pressure_pa: some(rarely(make.decimal(95_000, 105_000), make.oneOf([84_000, 110_000]))),
    visibility_m: some(make.decimal(0, 16_100)),
    temperature_max_24h_c: some(rarely(make.decimal(-20, 50), 70)),
    temperature_min_24h_c: some(rarely(make.decimal(-50, 20), -100)),
    precipitation_1h_mm: some(make.decimal(0, 50)),
    precipitation_3h_mm: some(make.decimal(0, 80)),
    precipitation_6h_mm: some(make.decimal(0, 120)),
    heat_index_c: some(make.decimal(20, 60)),
    wind_chill_c: some(make.decimal(-60, 10)),
  };
  const graded = measured.filter(() => make.random() < 0.5);
  return {
    ...key,
    received_at: make.moment(-600, 50),
    text_description: make.some(make.text('sky')),
    raw_message: make.some(make.text('METAR')),
    ...numbers,
    qc: Object.fromEntries(graded.map(([, column]) => [column, make.oneOf(letters)])),
  };
}
