-- Optional checks: the database rejects values that the reader would treat as null. NaN is greater than any
-- number, so `between` rejects it. `infinity` is after every date.
set search_path = weather;

alter table stations add constraint stations_possible check (
  elevation_m between -1000 and 10000
);
alter table observations add constraint observations_possible check (
  observed_at between '1800-01-01Z' and '2200-01-01Z' and received_at between '1800-01-01Z' and '2200-01-01Z'
  and temperature_c between -150 and 200 and dewpoint_c between -150 and 200
  and temperature_max_24h_c between -150 and 200 and temperature_min_24h_c between -150 and 200
  and heat_index_c between -150 and 200 and wind_chill_c between -150 and 200
  and relative_humidity_pct between 0 and 100.5 and wind_direction_deg between 0 and 360
  and wind_speed_kmh between 0 and 600 and wind_gust_kmh between 0 and 600
  and altimeter_pa between 75000 and 115000 and sea_level_pressure_pa between 75000 and 115000
  and visibility_m between 0 and 1000000 and precipitation_1h_mm between 0 and 5000
  and precipitation_3h_mm between 0 and 5000 and precipitation_6h_mm between 0 and 5000
  and jsonb_typeof(qc) = 'object'
);
alter table observation_clouds add constraint clouds_possible check (base_m between 0 and 1000000);
alter table alert_runs add constraint alert_runs_possible check (
  fetched_at between '1800-01-01Z' and '2200-01-01Z'
  and source_updated_at between '1800-01-01Z' and '2200-01-01Z'
);
alter table alerts add constraint alerts_possible check (
  sent_at between '1800-01-01Z' and '2200-01-01Z' and effective_at between '1800-01-01Z' and '2200-01-01Z'
  and onset_at between '1800-01-01Z' and '2200-01-01Z' and expires_at between '1800-01-01Z' and '2200-01-01Z'
  and ends_at between '1800-01-01Z' and '2200-01-01Z' and jsonb_typeof(parameters) = 'object'
  and geometry ->> 'type' in ('Point', 'Polygon', 'MultiPolygon')
);
alter table forecast_runs add constraint forecast_runs_possible check (
  generated_at between '1800-01-01Z' and '2200-01-01Z' and updated_at between '1800-01-01Z' and '2200-01-01Z'
  and valid_from between '1800-01-01Z' and '2200-01-01Z' and valid_until between '1800-01-01Z' and '2200-01-01Z'
  and elevation_m between -1000 and 10000
);
alter table forecast_periods add constraint forecast_periods_possible check (
  starts_at between '1800-01-01Z' and '2200-01-01Z' and ends_at between '1800-01-01Z' and '2200-01-01Z'
  and temperature_c between -150 and 200 and dewpoint_c between -150 and 200
  and precipitation_probability_pct between 0 and 100.5 and relative_humidity_pct between 0 and 100.5
  and wind_speed_min_kmh between 0 and 600 and wind_speed_max_kmh between 0 and 600
  and wind_gust_kmh between 0 and 600
);
alter table forecast_discussions add constraint forecast_discussions_possible check (
  issued_at between '1800-01-01Z' and '2200-01-01Z'
);
alter table weather_story_runs add constraint weather_story_runs_possible check (
  fetched_at between '1800-01-01Z' and '2200-01-01Z'
);
alter table weather_stories add constraint weather_stories_possible check (
  starts_at between '1800-01-01Z' and '2200-01-01Z' and ends_at between '1800-01-01Z' and '2200-01-01Z'
  and updated_at between '1800-01-01Z' and '2200-01-01Z'
);
alter table outlook_runs add constraint outlook_runs_possible check (
  issued_at between '1800-01-01Z' and '2200-01-01Z' and valid_from between '1800-01-01Z' and '2200-01-01Z'
  and valid_until between '1800-01-01Z' and '2200-01-01Z'
);
alter table outlooks add constraint outlooks_possible check (
  probability_pct between 0 and 100.5 and geometry ->> 'type' in ('Polygon', 'MultiPolygon')
);
