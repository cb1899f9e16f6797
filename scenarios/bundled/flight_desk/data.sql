-- Vento Air on Monday 15 June 2026, 08:00 UTC.

INSERT INTO roles (id, code, title, refund_limit_cents, goodwill_limit_cents) VALUES
    (1, 'desk_agent', 'Desk agent', 50000, 5000),
    (2, 'supervisor', 'Desk supervisor', 300000, 30000);

INSERT INTO staff (id, login, name, role) VALUES
    (1, 'l.fonseca', 'Leonor Fonseca', 'desk_agent'),
    (2, 'd.matos', 'Daniel Matos', 'desk_agent'),
    (3, 'i.quintela', 'Isabel Quintela', 'supervisor');

INSERT INTO airports (id, code, name, city, country, min_connection_min) VALUES
    (1, 'LIS', 'Humberto Delgado', 'Lisbon', 'Portugal', 50),
    (2, 'OPO', 'Francisco Sá Carneiro', 'Porto', 'Portugal', 40),
    (3, 'FNC', 'Cristiano Ronaldo', 'Funchal', 'Portugal', 35),
    (4, 'PDL', 'João Paulo II', 'Ponta Delgada', 'Portugal', 35),
    (5, 'MAD', 'Adolfo Suárez Barajas', 'Madrid', 'Spain', 55),
    (6, 'BCN', 'Josep Tarradellas El Prat', 'Barcelona', 'Spain', 50),
    (7, 'CDG', 'Charles de Gaulle', 'Paris', 'France', 60),
    (8, 'AMS', 'Schiphol', 'Amsterdam', 'Netherlands', 50),
    (9, 'FRA', 'Frankfurt am Main', 'Frankfurt', 'Germany', 60),
    (10, 'LHR', 'Heathrow', 'London', 'United Kingdom', 75),
    (11, 'DUB', 'Dublin', 'Dublin', 'Ireland', 45),
    (12, 'FCO', 'Leonardo da Vinci Fiumicino', 'Rome', 'Italy', 55);

INSERT INTO routes (id, origin, destination, distance_miles) VALUES
    (1, 'LIS', 'LHR', 971), (2, 'LHR', 'LIS', 971),
    (3, 'LIS', 'CDG', 913), (4, 'CDG', 'LIS', 913),
    (5, 'LIS', 'AMS', 1146), (6, 'AMS', 'LIS', 1146),
    (7, 'LIS', 'FCO', 1163), (8, 'FCO', 'LIS', 1163),
    (9, 'LIS', 'FNC', 600), (10, 'FNC', 'LIS', 600),
    (11, 'LIS', 'OPO', 172), (12, 'OPO', 'LIS', 172),
    (13, 'LIS', 'FRA', 1167), (14, 'FRA', 'LIS', 1167),
    (15, 'LIS', 'MAD', 319), (16, 'MAD', 'LIS', 319),
    (17, 'LIS', 'DUB', 1019), (18, 'DUB', 'LIS', 1019),
    (19, 'LIS', 'PDL', 898), (20, 'PDL', 'LIS', 898),
    (21, 'LIS', 'BCN', 621), (22, 'BCN', 'LIS', 621);

INSERT INTO aircraft_types (id, code, name) VALUES
    (1, 'AT76', 'ATR 72-600'),
    (2, 'E190', 'Embraer E190'),
    (3, 'A320', 'Airbus A320');

INSERT INTO aircraft (id, registration, type_id, name) VALUES
    (1, 'CS-VTA', 3, 'Sagres'),
    (2, 'CS-VTB', 3, 'Ericeira'),
    (3, 'CS-VTE', 2, 'Berlenga'),
    (4, 'CS-VTF', 2, 'Arrábida'),
    (5, 'CS-VTK', 1, 'Douro');

-- The seat maps: rows and letters of each type, told once.
INSERT INTO seats (id, type_id, label, row_no, cabin, place, zone, fee_cents)
WITH RECURSIVE
    row_numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM row_numbers WHERE n < 30),
    cabins (type_id, cabin, first_row, last_row, front_until, exit_from, exit_until) AS (VALUES
        (1, 'economy', 1, 18, 3, 9, 9),
        (2, 'business', 1, 3, 0, 0, 0),
        (2, 'economy', 4, 25, 6, 12, 12),
        (3, 'business', 1, 4, 0, 0, 0),
        (3, 'economy', 5, 30, 7, 12, 13)),
    letters (type_id, cabin, letter, position, place) AS (VALUES
        (1, 'economy', 'A', 1, 'window'), (1, 'economy', 'B', 2, 'aisle'),
        (1, 'economy', 'C', 3, 'aisle'), (1, 'economy', 'D', 4, 'window'),
        (2, 'business', 'A', 1, 'window'), (2, 'business', 'C', 3, 'aisle'),
        (2, 'business', 'F', 6, 'window'),
        (2, 'economy', 'A', 1, 'window'), (2, 'economy', 'C', 3, 'aisle'),
        (2, 'economy', 'D', 4, 'aisle'), (2, 'economy', 'F', 6, 'window'),
        (3, 'business', 'A', 1, 'window'), (3, 'business', 'C', 3, 'aisle'),
        (3, 'business', 'D', 4, 'aisle'), (3, 'business', 'F', 6, 'window'),
        (3, 'economy', 'A', 1, 'window'), (3, 'economy', 'B', 2, 'middle'),
        (3, 'economy', 'C', 3, 'aisle'), (3, 'economy', 'D', 4, 'aisle'),
        (3, 'economy', 'E', 5, 'middle'), (3, 'economy', 'F', 6, 'window')),
    zoned AS (
        SELECT c.type_id, c.cabin, r.n, l.letter, l.position, l.place,
            CASE
                WHEN c.cabin = 'business' THEN 'business'
                WHEN r.n <= c.front_until THEN 'front'
                WHEN r.n BETWEEN c.exit_from AND c.exit_until THEN 'exit'
                ELSE 'standard'
            END AS zone
        FROM cabins c
        JOIN row_numbers r ON r.n BETWEEN c.first_row AND c.last_row
        JOIN letters l ON l.type_id = c.type_id AND l.cabin = c.cabin)
SELECT type_id * 1000 + n * 10 + position, type_id, n || letter, n, cabin, place, zone,
    CASE zone WHEN 'front' THEN 1500 WHEN 'exit' THEN 2500 WHEN 'standard' THEN 900 ELSE 0 END
FROM zoned
ORDER BY type_id, n, position;

-- Crew rest, and a seat whose belt waits for a part.
UPDATE seats SET blocked = 1 WHERE (type_id, label) IN (VALUES (3, '30F'), (3, '12F'), (2, '25A'));

INSERT INTO fare_families (id, code, cabin, changeable, change_fee_cents, refund, refund_fee_cents, no_show_fee_cents, bags_included, bag_kg, seat_included, miles_percent) VALUES
    (1, 'LIGHT', 'economy', 0, 0, 'none', 0, NULL, 0, 23, 0, 25),
    (2, 'CLASSIC', 'economy', 1, 4500, 'less_fee', 7000, NULL, 1, 23, 0, 100),
    (3, 'FLEX', 'economy', 1, 0, 'full', 0, 9000, 1, 23, 1, 150),
    (4, 'BUSINESS', 'business', 1, 0, 'full', 0, 12000, 2, 32, 1, 200);

INSERT INTO ancillary_products (id, code, title, price_cents, max_per_segment) VALUES
    (1, 'BAG23', 'Extra checked bag of 23 kg', 4000, 3),
    (2, 'BAG32', 'Extra checked bag of 32 kg', 6500, 2),
    (3, 'SPORT', 'Sports equipment up to 32 kg', 5500, 1),
    (4, 'UMNR', 'Escort for an unaccompanied minor', 6000, 1),
    (5, 'MEAL', 'Hot meal', 1400, 2),
    (6, 'WCHR', 'Wheelchair to the aircraft', 0, 1);

INSERT INTO compensation_bands (id, kind, min_delay_min, max_delay_min, amount_cents) VALUES
    (1, 'delay', 120, 179, 5000),
    (2, 'delay', 180, 239, 12500),
    (3, 'delay', 240, NULL, 25000),
    (4, 'cancellation', 0, NULL, 25000);

INSERT INTO loyalty_tiers (id, code, tier_miles_needed, bonus_percent, extra_bags) VALUES
    (1, 'basic', 0, 0, 0),
    (2, 'silver', 20000, 25, 0),
    (3, 'gold', 45000, 50, 1);

INSERT INTO flights (id, number, route_id, aircraft_id, departs_at, arrives_at, status) VALUES
    -- Paris
    (201, 'VT436', 3, 1, '2026-06-16T12:30:00Z', '2026-06-16T15:05:00Z', 'cancelled'),
    (202, 'VT438', 3, 2, '2026-06-16T18:20:00Z', '2026-06-16T20:55:00Z', 'scheduled'),
    (203, 'VT434', 3, 1, '2026-06-17T06:40:00Z', '2026-06-17T09:15:00Z', 'scheduled'),
    (204, 'VT436', 3, 1, '2026-06-17T12:30:00Z', '2026-06-17T15:05:00Z', 'scheduled'),
    (205, 'VT437', 4, 1, '2026-06-20T16:00:00Z', '2026-06-20T18:35:00Z', 'scheduled'),
    -- Amsterdam
    (206, 'VT662', 5, 1, '2026-06-20T07:30:00Z', '2026-06-20T10:35:00Z', 'scheduled'),
    (207, 'VT662', 5, 1, '2026-06-22T07:30:00Z', '2026-06-22T10:35:00Z', 'scheduled'),
    (208, 'VT664', 5, 2, '2026-06-22T17:10:00Z', '2026-06-22T20:15:00Z', 'scheduled'),
    (209, 'VT663', 6, 1, '2026-06-27T11:25:00Z', '2026-06-27T14:30:00Z', 'scheduled'),
    -- London
    (210, 'VT350', 1, 1, '2026-06-18T07:15:00Z', '2026-06-18T10:00:00Z', 'scheduled'),
    (211, 'VT352', 1, 2, '2026-06-18T14:50:00Z', '2026-06-18T17:35:00Z', 'scheduled'),
    (212, 'VT351', 2, 1, '2026-06-25T11:10:00Z', '2026-06-25T13:55:00Z', 'scheduled'),
    (213, 'VT352', 1, 2, '2026-06-14T14:50:00Z', '2026-06-14T17:35:00Z', 'landed'),
    (214, 'VT350', 1, 2, '2026-06-17T07:15:00Z', '2026-06-17T10:00:00Z', 'scheduled'),
    (215, 'VT352', 1, 2, '2026-06-16T14:50:00Z', '2026-06-16T17:35:00Z', 'scheduled'),
    -- Madeira
    (216, 'VT160', 9, 3, '2026-06-27T08:05:00Z', '2026-06-27T09:55:00Z', 'scheduled'),
    (217, 'VT164', 9, 3, '2026-06-27T13:40:00Z', '2026-06-27T15:30:00Z', 'scheduled'),
    (218, 'VT168', 9, 4, '2026-06-27T20:30:00Z', '2026-06-27T22:20:00Z', 'scheduled'),
    (219, 'VT165', 10, 3, '2026-06-30T16:20:00Z', '2026-06-30T18:10:00Z', 'scheduled'),
    (220, 'VT160', 9, 3, '2026-06-20T08:05:00Z', '2026-06-20T09:55:00Z', 'scheduled'),
    (221, 'VT164', 9, 3, '2026-06-20T13:40:00Z', '2026-06-20T15:30:00Z', 'scheduled'),
    (222, 'VT168', 9, 4, '2026-06-20T20:30:00Z', '2026-06-20T22:20:00Z', 'scheduled'),
    -- Porto and Frankfurt
    (223, 'VT190', 12, 5, '2026-06-15T10:30:00Z', '2026-06-15T11:25:00Z', 'delayed'),
    (224, 'VT570', 13, 4, '2026-06-15T12:50:00Z', '2026-06-15T15:55:00Z', 'scheduled'),
    (225, 'VT574', 13, 4, '2026-06-15T18:05:00Z', '2026-06-15T21:10:00Z', 'scheduled'),
    (226, 'VT570', 13, 4, '2026-06-16T12:50:00Z', '2026-06-16T15:55:00Z', 'scheduled'),
    (227, 'VT190', 12, 5, '2026-06-23T10:30:00Z', '2026-06-23T11:25:00Z', 'scheduled'),
    (228, 'VT570', 13, 4, '2026-06-23T12:35:00Z', '2026-06-23T15:40:00Z', 'scheduled'),
    -- Rome
    (229, 'VT840', 7, 1, '2026-06-12T09:00:00Z', '2026-06-12T12:00:00Z', 'landed'),
    (230, 'VT842', 7, 2, '2026-06-11T15:20:00Z', '2026-06-11T18:20:00Z', 'landed'),
    (231, 'VT842', 7, 2, '2026-06-13T15:20:00Z', '2026-06-13T18:20:00Z', 'landed'),
    -- Azores
    (232, 'VT176', 19, 2, '2026-06-10T09:20:00Z', '2026-06-10T11:45:00Z', 'cancelled'),
    (233, 'VT176', 19, 2, '2026-06-11T09:20:00Z', '2026-06-11T11:45:00Z', 'landed'),
    (234, 'VT177', 20, 2, '2026-06-26T12:40:00Z', '2026-06-26T15:05:00Z', 'scheduled'),
    -- Madrid
    (235, 'VT720', 15, 3, '2026-06-19T08:10:00Z', '2026-06-19T09:30:00Z', 'scheduled'),
    (236, 'VT726', 15, 3, '2026-06-19T19:10:00Z', '2026-06-19T20:30:00Z', 'scheduled'),
    (237, 'VT721', 16, 3, '2026-06-21T10:15:00Z', '2026-06-21T11:35:00Z', 'scheduled'),
    -- Dublin
    (238, 'VT470', 17, 2, '2026-05-22T13:00:00Z', '2026-05-22T15:50:00Z', 'landed'),
    (239, 'VT471', 18, 2, '2026-05-29T16:40:00Z', '2026-05-29T19:30:00Z', 'landed'),
    -- Amsterdam and London, flown
    (240, 'VT662', 5, 1, '2026-05-30T07:30:00Z', '2026-05-30T10:35:00Z', 'landed'),
    (241, 'VT663', 6, 1, '2026-06-06T11:25:00Z', '2026-06-06T14:30:00Z', 'landed'),
    (246, 'VT350', 1, 1, '2026-04-02T07:15:00Z', '2026-04-02T10:00:00Z', 'landed'),
    -- Barcelona
    (242, 'VT740', 21, 3, '2026-06-24T10:00:00Z', '2026-06-24T11:55:00Z', 'scheduled'),
    (243, 'VT741', 22, 3, '2026-06-28T17:30:00Z', '2026-06-28T19:25:00Z', 'scheduled'),
    (244, 'VT740', 21, 3, '2026-06-15T10:00:00Z', '2026-06-15T11:55:00Z', 'cancelled'),
    (245, 'VT740', 21, 3, '2026-06-16T10:00:00Z', '2026-06-16T11:55:00Z', 'scheduled');

INSERT INTO flight_inventory (flight_id, cabin, capacity, seats_left) VALUES
    (201, 'economy', 154, 31), (201, 'business', 16, 6),
    (202, 'economy', 154, 0), (202, 'business', 16, 2),
    (203, 'economy', 154, 6), (203, 'business', 16, 5),
    (204, 'economy', 154, 22), (204, 'business', 16, 7),
    (205, 'economy', 154, 40), (205, 'business', 16, 9),
    (206, 'economy', 154, 12), (206, 'business', 16, 3),
    (207, 'economy', 154, 1), (207, 'business', 16, 4),
    (208, 'economy', 154, 37), (208, 'business', 16, 8),
    (209, 'economy', 154, 25), (209, 'business', 16, 6),
    (210, 'economy', 154, 18), (210, 'business', 16, 2),
    (211, 'economy', 154, 29), (211, 'business', 16, 5),
    (212, 'economy', 154, 44), (212, 'business', 16, 7),
    (214, 'economy', 154, 9), (214, 'business', 16, 1),
    (215, 'economy', 154, 5), (215, 'business', 16, 3),
    (216, 'economy', 87, 14), (216, 'business', 9, 2),
    (217, 'economy', 87, 23), (217, 'business', 9, 4),
    (218, 'economy', 87, 31), (218, 'business', 9, 5),
    (219, 'economy', 87, 20), (219, 'business', 9, 3),
    (220, 'economy', 87, 11), (220, 'business', 9, 1),
    (221, 'economy', 87, 19), (221, 'business', 9, 4),
    (222, 'economy', 87, 35), (222, 'business', 9, 6),
    (223, 'economy', 72, 8),
    (224, 'economy', 87, 4), (224, 'business', 9, 1),
    (225, 'economy', 87, 3), (225, 'business', 9, 2),
    (226, 'economy', 87, 16), (226, 'business', 9, 3),
    (227, 'economy', 72, 27),
    (228, 'economy', 87, 21), (228, 'business', 9, 4),
    (234, 'economy', 154, 58), (234, 'business', 16, 10),
    (235, 'economy', 87, 13), (235, 'business', 9, 2),
    (236, 'economy', 87, 26), (236, 'business', 9, 5),
    (237, 'economy', 87, 30), (237, 'business', 9, 4),
    (242, 'economy', 87, 17), (242, 'business', 9, 3),
    (243, 'economy', 87, 28), (243, 'business', 9, 5),
    (244, 'economy', 87, 10), (244, 'business', 9, 2),
    (245, 'economy', 87, 6), (245, 'business', 9, 1);

INSERT INTO disruptions (id, flight_id, kind, cause, departure_delay_min, arrival_delay_min, announced_at) VALUES
    (301, 201, 'cancellation', 'technical', NULL, NULL, '2026-06-15T05:40:00Z'),
    (302, 223, 'delay', 'air_traffic_control', 50, 55, '2026-06-15T07:35:00Z'),
    (303, 229, 'delay', 'technical', 251, 236, '2026-06-12T09:20:00Z'),
    (304, 230, 'delay', 'crew', 190, 182, '2026-06-11T15:00:00Z'),
    (305, 232, 'cancellation', 'weather', NULL, NULL, '2026-06-10T07:10:00Z'),
    (306, 233, 'delay', 'weather', 130, 125, '2026-06-11T08:45:00Z'),
    (307, 244, 'cancellation', 'crew', NULL, NULL, '2026-06-15T06:15:00Z'),
    (308, 241, 'delay', 'air_traffic_control', 45, 30, '2026-06-06T11:00:00Z');

INSERT INTO fares (id, flight_id, family_code, amount_cents, valid_from, valid_until) VALUES
    (2001, 202, 'CLASSIC', 23900, '2026-06-10', '2026-06-16'),
    (2002, 202, 'BUSINESS', 54900, '2026-06-10', '2026-06-16'),
    (2003, 203, 'LIGHT', 17900, '2026-06-08', '2026-06-17'),
    (2004, 203, 'CLASSIC', 21600, '2026-06-08', '2026-06-17'),
    (2005, 203, 'FLEX', 28800, '2026-06-08', '2026-06-17'),
    (2006, 204, 'LIGHT', 14900, '2026-06-08', '2026-06-17'),
    (2007, 204, 'CLASSIC', 18700, '2026-06-08', '2026-06-17'),
    (2008, 204, 'FLEX', 26200, '2026-06-08', '2026-06-17'),
    (2009, 206, 'CLASSIC', 20900, '2026-06-08', '2026-06-20'),
    (2010, 207, 'CLASSIC', 18900, '2026-06-01', '2026-06-10'),
    (2011, 207, 'CLASSIC', 21400, '2026-06-11', '2026-06-22'),
    (2012, 207, 'FLEX', 29900, '2026-06-08', '2026-06-22'),
    (2013, 208, 'CLASSIC', 22800, '2026-06-08', '2026-06-22'),
    (2014, 208, 'FLEX', 31500, '2026-06-12', '2026-06-22'),
    (2015, 208, 'FLEX', 28700, '2026-06-01', '2026-06-11'),
    (2016, 208, 'BUSINESS', 64300, '2026-06-08', '2026-06-22'),
    (2017, 210, 'CLASSIC', 21250, '2026-06-10', '2026-06-18'),
    (2018, 211, 'CLASSIC', 19400, '2026-06-10', '2026-06-18'),
    (2019, 211, 'FLEX', 27600, '2026-06-10', '2026-06-18'),
    (2020, 214, 'CLASSIC', 17900, '2026-06-01', '2026-06-09'),
    (2021, 214, 'CLASSIC', 19950, '2026-06-10', '2026-06-17'),
    (2022, 214, 'FLEX', 29100, '2026-06-10', '2026-06-17'),
    (2023, 215, 'CLASSIC', 22300, '2026-06-10', '2026-06-16'),
    (2024, 215, 'FLEX', 26400, '2026-06-01', '2026-06-13'),
    (2025, 215, 'FLEX', 27900, '2026-06-14', '2026-06-16'),
    (2026, 216, 'CLASSIC', 9800, '2026-06-01', '2026-06-27'),
    (2027, 217, 'CLASSIC', 8900, '2026-06-01', '2026-06-27'),
    (2028, 218, 'CLASSIC', 7600, '2026-06-01', '2026-06-27'),
    (2029, 220, 'FLEX', 14200, '2026-06-10', '2026-06-20'),
    (2030, 221, 'FLEX', 13600, '2026-06-10', '2026-06-20'),
    (2031, 225, 'LIGHT', 18800, '2026-06-12', '2026-06-15'),
    (2032, 225, 'CLASSIC', 23700, '2026-06-12', '2026-06-15'),
    (2033, 226, 'CLASSIC', 20100, '2026-06-12', '2026-06-16'),
    (2034, 235, 'CLASSIC', 8700, '2026-06-01', '2026-06-19'),
    (2035, 236, 'CLASSIC', 7900, '2026-06-01', '2026-06-19'),
    (2036, 242, 'CLASSIC', 10900, '2026-06-08', '2026-06-24'),
    (2037, 243, 'LIGHT', 6900, '2026-06-08', '2026-06-28'),
    (2038, 243, 'CLASSIC', 9200, '2026-05-25', '2026-06-12'),
    (2039, 243, 'CLASSIC', 11300, '2026-06-13', '2026-06-28'),
    (2040, 245, 'LIGHT', 9900, '2026-06-10', '2026-06-16'),
    (2041, 245, 'CLASSIC', 13400, '2026-06-10', '2026-06-16'),
    (2042, 237, 'CLASSIC', 8400, '2026-06-01', '2026-06-21');

INSERT INTO passengers (id, first_name, last_name, born_on, email) VALUES
    (1, 'Helena', 'Duarte', '1984-03-12', 'helena.duarte@correiosul.example'),
    (2, 'Tomás', 'Albuquerque', '1979-11-02', 'tomas@albuquerque-lda.example'),
    (3, 'Ana', 'Ferreira', '1991-07-19', 'ana.ferreira91@maildouro.example'),
    (4, 'Ana', 'Ferreira', '1963-02-08', 'ana.ferreira@oliveiras.example'),
    (5, 'Rui', 'Tavares', '1988-09-30', 'rui.tavares@pontoazul.example'),
    (6, 'Rui', 'Tavares', '1956-05-14', 'rtavares56@maildouro.example'),
    (7, 'Ingrid', 'Solberg', '1975-01-23', 'ingrid.solberg@fjordmail.example'),
    (8, 'Matilde', 'Rocha', '2017-04-05', NULL),
    (9, 'Sofia', 'Rocha', '1986-12-17', 'sofia.rocha@casarocha.example'),
    (10, 'Lourenço', 'Pires', '2018-08-21', NULL),
    (11, 'João', 'Mendes', '1994-06-27', 'joao.mendes@ondasul.example'),
    (12, 'Joana', 'Mendes', '1992-10-03', 'joana.mendes@ondasul.example'),
    (13, 'Catarina', 'Nunez', '1990-04-11', 'catarina.nunes@livraria.example'),
    (14, 'Pieter', 'de Vries', '1968-08-08', 'pieter@devries-bloemen.example'),
    (15, 'Eva', 'de Vries', '1971-02-25', 'eva@devries-bloemen.example'),
    (16, 'Marco', 'Bianchi', '1982-05-30', 'marco.bianchi@trastevere.example'),
    (17, 'Giulia', 'Bianchi', '1985-09-14', 'giulia.bianchi@trastevere.example'),
    (18, 'Giulio', 'Bianchi', '1958-01-09', 'giulio.bianchi@vianova.example'),
    (19, 'Beatriz', 'Carvalho', '1999-03-22', 'bia.carvalho@maildouro.example'),
    (20, 'Duarte', 'Nogueira', '1961-12-01', 'd.nogueira@nogueira-vinhos.example'),
    (21, 'Fiona', 'Gallagher', '1983-07-07', 'fiona.gallagher@liffeymail.example'),
    (22, 'Klaus', 'Weber', '1972-10-19', 'klaus.weber@mainpost.example'),
    (23, 'Lena', 'Weber', '1974-06-02', 'lena.weber@mainpost.example'),
    (24, 'Miguel', 'Antunes', '1987-05-05', 'miguel.antunes@lagos.example'),
    (25, 'Miguel', 'Antunes Reis', '1987-11-15', 'mareis@lagos.example'),
    (26, 'Priya', 'Nair', '1993-09-09', 'priya.nair@keralink.example'),
    (27, 'Oliver', 'Hughes', '1969-01-31', 'oliver.hughes@thamesmail.example'),
    (28, 'Carla', 'Monteiro', '1977-03-18', 'carla.monteiro@maildouro.example'),
    (29, 'Clara', 'Monteiro', '1978-03-08', 'clara.monteiro@maildouro.example'),
    (30, 'Nuno', 'Sequeira', '2010-10-11', NULL),
    (31, 'Teresa', 'Sequeira', '1980-04-24', 'teresa.sequeira@quintal.example'),
    (32, 'Hugo', 'Barata', '1996-08-16', 'hugo.barata@pontoazul.example'),
    (33, 'Yasmin', 'El Amrani', '1989-02-13', 'yasmin.elamrani@medina.example'),
    (34, 'Vasco', 'Lima', '1981-11-28', 'vasco.lima@limaelima.example');

INSERT INTO bookings (id, reference, contact_name, contact_email, contact_phone, card_last4, channel, booked_at) VALUES
    (501, 'QX7KLM', 'Helena Duarte', 'helena.duarte@correiosul.example', '+351 912 555 014', '4417', 'web', '2026-05-18T10:12:00Z'),
    (502, 'TM4PZR', 'Tomás Albuquerque', 'tomas@albuquerque-lda.example', '+351 913 555 020', '0932', 'web', '2026-05-11T19:40:00Z'),
    (503, 'LK2WVD', 'Oliver Hughes', 'oliver.hughes@thamesmail.example', '+44 7700 900 127', '7720', 'app', '2026-05-27T08:05:00Z'),
    (504, 'BN9CRT', 'Yasmin El Amrani', 'yasmin.elamrani@medina.example', '+34 655 550 133', '6104', 'web', '2026-06-03T21:16:00Z'),
    (505, 'FG3DXN', 'Fiona Gallagher', 'fiona.gallagher@liffeymail.example', '+353 85 555 0121', '3381', 'web', '2026-05-30T12:00:00Z'),
    (506, 'WB6KTE', 'Klaus Weber', 'klaus.weber@mainpost.example', '+49 1520 555 0122', '5518', 'agency', '2026-05-15T09:30:00Z'),
    (507, 'PN8LHS', 'Priya Nair', 'priya.nair@keralink.example', '+44 7700 900 126', '2046', 'app', '2026-06-01T17:45:00Z'),
    (508, 'SQ5TNA', 'Teresa Sequeira', 'teresa.sequeira@quintal.example', '+351 916 555 031', '8829', 'web', '2026-05-20T20:20:00Z'),
    (509, 'VL7MAD', 'Vasco Lima', 'vasco.lima@limaelima.example', '+351 917 555 034', '1273', 'web', '2026-05-29T07:55:00Z'),
    (510, 'AF2AMS', 'Ana Ferreira', 'ana.ferreira91@maildouro.example', '+351 918 555 003', '9064', 'app', '2026-04-28T22:31:00Z'),
    (511, 'MB4FCO', 'Marco Bianchi', 'marco.bianchi@trastevere.example', '+39 333 555 0116', '4750', 'web', '2026-05-02T11:11:00Z'),
    (512, 'RC9FNC', 'Sofia Rocha', 'sofia.rocha@casarocha.example', '+351 919 555 009', '3347', 'web', '2026-06-07T18:02:00Z'),
    (513, 'LP3FNC', 'Marta Pires', 'marta.pires@casapires.example', '+351 914 555 010', '6690', 'web', '2026-06-08T13:27:00Z'),
    (514, 'DN6FRA', 'Duarte Nogueira', 'd.nogueira@nogueira-vinhos.example', '+351 910 555 020', '1185', 'agency', '2026-05-25T15:00:00Z'),
    (515, 'CM3BCN', 'Clara Monteiro', 'clara.monteiro@maildouro.example', '+351 915 555 029', '7402', 'web', '2026-06-10T09:18:00Z'),
    (516, 'CM8BCN', 'Carla Monteiro', 'carla.monteiro@maildouro.example', '+351 915 555 028', '5961', 'app', '2026-06-05T16:44:00Z'),
    (517, 'PV2AMS', 'Pieter de Vries', 'pieter@devries-bloemen.example', '+31 6 5555 0114', '2298', 'web', '2026-05-22T06:50:00Z'),
    (518, 'CN5LHR', 'Catarina Nunes', 'catarina.nunes@livraria.example', '+351 911 555 013', '8013', 'web', '2026-06-04T23:09:00Z'),
    (519, 'KD3HQS', 'Lena Weber', 'lena.weber@mainpost.example', '+49 1520 555 0123', '5527', 'app', '2026-06-02T10:10:00Z'),
    (520, 'HB9CDG', 'Hugo Barata', 'hugo.barata@pontoazul.example', '+351 912 555 032', '4096', 'app', '2026-06-06T14:36:00Z'),
    (521, 'RT5JNB', 'João Mendes', 'joao.mendes@ondasul.example', '+351 913 555 011', '7153', 'web', '2026-06-02T20:58:00Z'),
    (522, 'RT8JNB', 'João Mendes', 'joao.mendes@ondasul.example', '+351 913 555 011', '7153', 'app', '2026-06-09T08:41:00Z'),
    (523, 'RT6JNB', 'Joana Mendes', 'joana.mendes@ondasul.example', '+351 913 555 012', '7161', 'app', '2026-06-09T08:47:00Z'),
    (524, 'RU1FCO', 'Rui Tavares', 'rui.tavares@pontoazul.example', '+351 914 555 005', '3570', 'web', '2026-05-08T12:25:00Z'),
    (525, 'RU7FCO', 'Rui Tavares', 'rtavares56@maildouro.example', '+351 914 555 006', '9938', 'agency', '2026-05-19T10:00:00Z'),
    (526, 'IS4LHR', 'Ingrid Solberg', 'ingrid.solberg@fjordmail.example', '+47 912 55 507', '6642', 'web', '2026-05-21T18:30:00Z'),
    (527, 'MA6BCN', 'Miguel Antunes', 'miguel.antunes@lagos.example', '+351 916 555 024', '2715', 'web', '2026-06-01T09:09:00Z'),
    (528, 'MR6BCN', 'Miguel Antunes Reis', 'mareis@lagos.example', '+351 916 555 025', '2751', 'web', '2026-06-01T19:09:00Z'),
    (529, 'EV8AMS', 'Eva de Vries', 'eva@devries-bloemen.example', '+31 6 5555 0115', '2306', 'web', '2026-05-22T07:05:00Z'),
    (530, 'PN2FRA', 'Priya Nair', 'priya.nair@keralink.example', '+44 7700 900 126', '2046', 'app', '2026-06-11T21:00:00Z'),
    (531, 'LW9LHR', 'Lena Weber', 'lena.weber@mainpost.example', '+49 1520 555 0123', '5527', 'web', '2026-05-16T11:52:00Z'),
    (532, 'BC5BCN', 'Beatriz Carvalho', 'bia.carvalho@maildouro.example', '+351 917 555 019', '1834', 'app', '2026-05-28T23:48:00Z'),
    (533, 'BC7MAD', 'Beatriz Carvalho', 'bia.carvalho@maildouro.example', '+351 917 555 019', '1834', 'app', '2026-06-06T12:15:00Z'),
    (534, 'FG8PDL', 'Fiona Gallagher', 'fiona.gallagher@liffeymail.example', '+353 85 555 0121', '3381', 'web', '2026-05-05T17:17:00Z'),
    (535, 'VL2LHR', 'Vasco Lima', 'vasco.lima@limaelima.example', '+351 917 555 034', '1273', 'web', '2026-03-08T10:49:00Z'),
    (536, 'OH4BCN', 'Oliver Hughes', 'oliver.hughes@thamesmail.example', '+44 7700 900 127', '7720', 'app', '2026-06-07T07:30:00Z'),
    (537, 'HB5AMS', 'Hugo Barata', 'hugo.barata@pontoazul.example', '+351 912 555 032', '4096', 'web', '2026-06-09T15:55:00Z'),
    (540, 'GB4FCO', 'Giulio Bianchi', 'giulio.bianchi@vianova.example', '+39 333 555 0118', '6067', 'agency', '2026-05-12T10:20:00Z'),
    (541, 'AF7AMS', 'Ana Ferreira', 'ana.ferreira@oliveiras.example', '+351 918 555 004', '9046', 'desk', '2026-05-09T14:14:00Z'),
    (543, 'PN5CDG', 'Priya Nair', 'priya.nair@keralink.example', '+44 7700 900 126', '2046', 'app', '2026-06-12T06:40:00Z');

INSERT INTO booking_passengers (booking_id, passenger_id) VALUES
    (501, 1), (502, 2), (503, 27), (504, 33), (505, 21), (506, 22), (506, 23), (507, 26),
    (508, 30), (508, 31), (509, 34), (510, 3), (511, 16), (511, 17), (512, 8), (513, 10),
    (514, 20), (515, 29), (516, 28), (517, 14), (518, 13), (519, 23), (520, 32), (521, 11),
    (522, 11), (523, 12), (524, 5), (525, 6), (526, 7), (527, 24), (528, 25), (529, 15),
    (530, 26), (531, 23), (532, 19), (533, 19), (534, 21), (535, 34), (536, 27), (537, 32),
    (540, 18), (541, 4), (543, 26);

INSERT INTO segments (id, booking_id, passenger_id, flight_id, family_code, fare_cents, status, replaces_id, reason, created_at) VALUES
    (3001, 501, 1, 201, 'CLASSIC', 14800, 'confirmed', NULL, NULL, '2026-05-18T10:12:00Z'),
    (3002, 501, 1, 205, 'CLASSIC', 15200, 'confirmed', NULL, NULL, '2026-05-18T10:12:00Z'),
    (3003, 502, 2, 206, 'CLASSIC', 15900, 'confirmed', NULL, NULL, '2026-05-11T19:40:00Z'),
    (3004, 502, 2, 209, 'CLASSIC', 16400, 'confirmed', NULL, NULL, '2026-05-11T19:40:00Z'),
    (3005, 503, 27, 210, 'CLASSIC', 18740, 'confirmed', NULL, NULL, '2026-05-27T08:05:00Z'),
    (3006, 504, 33, 244, 'LIGHT', 7400, 'confirmed', NULL, NULL, '2026-06-03T21:16:00Z'),
    (3007, 505, 21, 211, 'FLEX', 26800, 'confirmed', NULL, NULL, '2026-05-30T12:00:00Z'),
    (3008, 506, 22, 211, 'CLASSIC', 18900, 'confirmed', NULL, NULL, '2026-05-15T09:30:00Z'),
    (3009, 506, 23, 211, 'CLASSIC', 18900, 'confirmed', NULL, NULL, '2026-05-15T09:30:00Z'),
    (3010, 507, 26, 211, 'FLEX', 27100, 'confirmed', NULL, NULL, '2026-06-01T17:45:00Z'),
    (3011, 508, 31, 217, 'CLASSIC', 8400, 'confirmed', NULL, NULL, '2026-05-20T20:20:00Z'),
    (3012, 508, 30, 217, 'CLASSIC', 8400, 'confirmed', NULL, NULL, '2026-05-20T20:20:00Z'),
    (3013, 509, 34, 235, 'CLASSIC', 7900, 'confirmed', NULL, NULL, '2026-05-29T07:55:00Z'),
    (3014, 509, 34, 237, 'CLASSIC', 8100, 'confirmed', NULL, NULL, '2026-05-29T07:55:00Z'),
    (3015, 510, 3, 240, 'CLASSIC', 17100, 'flown', NULL, NULL, '2026-04-28T22:31:00Z'),
    (3016, 510, 3, 241, 'CLASSIC', 16600, 'flown', NULL, NULL, '2026-04-28T22:31:00Z'),
    (3017, 511, 16, 229, 'CLASSIC', 17800, 'flown', NULL, NULL, '2026-05-02T11:11:00Z'),
    (3018, 511, 17, 229, 'CLASSIC', 17800, 'flown', NULL, NULL, '2026-05-02T11:11:00Z'),
    (3019, 512, 8, 217, 'CLASSIC', 8900, 'confirmed', NULL, NULL, '2026-06-07T18:02:00Z'),
    (3020, 513, 10, 218, 'CLASSIC', 7600, 'confirmed', NULL, NULL, '2026-06-08T13:27:00Z'),
    (3021, 514, 20, 223, 'CLASSIC', 6400, 'confirmed', NULL, NULL, '2026-05-25T15:00:00Z'),
    (3022, 514, 20, 224, 'CLASSIC', 16800, 'confirmed', NULL, NULL, '2026-05-25T15:00:00Z'),
    (3023, 516, 28, 242, 'CLASSIC', 10400, 'confirmed', NULL, NULL, '2026-06-05T16:44:00Z'),
    (3024, 516, 28, 243, 'CLASSIC', 9800, 'confirmed', NULL, NULL, '2026-06-05T16:44:00Z'),
    (3025, 515, 29, 242, 'CLASSIC', 10900, 'confirmed', NULL, NULL, '2026-06-10T09:18:00Z'),
    (3026, 517, 14, 208, 'BUSINESS', 61200, 'confirmed', NULL, NULL, '2026-05-22T06:50:00Z'),
    (3027, 518, 13, 212, 'CLASSIC', 17300, 'confirmed', NULL, NULL, '2026-06-04T23:09:00Z'),
    (3028, 519, 23, 228, 'CLASSIC', 15500, 'confirmed', NULL, NULL, '2026-06-02T10:10:00Z'),
    (3029, 520, 32, 204, 'FLEX', 25400, 'confirmed', NULL, NULL, '2026-06-06T14:36:00Z'),
    (3030, 521, 11, 220, 'FLEX', 13200, 'confirmed', NULL, NULL, '2026-06-02T20:58:00Z'),
    (3031, 522, 11, 220, 'FLEX', 13900, 'confirmed', NULL, NULL, '2026-06-09T08:41:00Z'),
    (3032, 523, 12, 220, 'FLEX', 13900, 'confirmed', NULL, NULL, '2026-06-09T08:47:00Z'),
    (3033, 524, 5, 230, 'CLASSIC', 18400, 'flown', NULL, NULL, '2026-05-08T12:25:00Z'),
    (3034, 525, 6, 231, 'CLASSIC', 17500, 'flown', NULL, NULL, '2026-05-19T10:00:00Z'),
    (3035, 526, 7, 213, 'FLEX', 24900, 'no_show', NULL, NULL, '2026-05-21T18:30:00Z'),
    (3036, 526, 7, 212, 'FLEX', 23800, 'confirmed', NULL, NULL, '2026-05-21T18:30:00Z'),
    (3037, 527, 24, 242, 'CLASSIC', 10200, 'confirmed', NULL, NULL, '2026-06-01T09:09:00Z'),
    (3038, 528, 25, 242, 'CLASSIC', 10200, 'confirmed', NULL, NULL, '2026-06-01T19:09:00Z'),
    (3039, 529, 15, 206, 'CLASSIC', 17230, 'confirmed', NULL, NULL, '2026-05-22T07:05:00Z'),
    (3040, 529, 15, 209, 'CLASSIC', 16400, 'confirmed', NULL, NULL, '2026-05-22T07:05:00Z'),
    (3041, 530, 26, 227, 'CLASSIC', 5900, 'confirmed', NULL, NULL, '2026-06-11T21:00:00Z'),
    (3042, 530, 26, 228, 'CLASSIC', 14700, 'confirmed', NULL, NULL, '2026-06-11T21:00:00Z'),
    (3043, 531, 23, 210, 'CLASSIC', 17600, 'confirmed', NULL, NULL, '2026-05-16T11:52:00Z'),
    (3044, 532, 19, 242, 'LIGHT', 5900, 'confirmed', NULL, NULL, '2026-05-28T23:48:00Z'),
    (3045, 533, 19, 235, 'CLASSIC', 8200, 'confirmed', NULL, NULL, '2026-06-06T12:15:00Z'),
    (3046, 534, 21, 232, 'CLASSIC', 13700, 'exchanged', NULL, 'airline_cancellation', '2026-05-05T17:17:00Z'),
    (3047, 534, 21, 233, 'CLASSIC', 13700, 'flown', 3046, NULL, '2026-06-10T08:02:00Z'),
    (3048, 540, 18, 231, 'FLEX', 24600, 'flown', NULL, NULL, '2026-05-12T10:20:00Z'),
    (3049, 541, 4, 241, 'LIGHT', 9900, 'flown', NULL, NULL, '2026-05-09T14:14:00Z'),
    (3050, 535, 34, 246, 'CLASSIC', 15800, 'flown', NULL, NULL, '2026-03-08T10:49:00Z'),
    (3051, 536, 27, 242, 'CLASSIC', 10900, 'confirmed', NULL, NULL, '2026-06-07T07:30:00Z'),
    (3052, 536, 27, 243, 'CLASSIC', 9200, 'confirmed', NULL, NULL, '2026-06-07T07:30:00Z'),
    (3053, 537, 32, 208, 'FLEX', 28700, 'confirmed', NULL, NULL, '2026-06-09T15:55:00Z'),
    (3054, 543, 26, 204, 'FLEX', 26200, 'confirmed', NULL, NULL, '2026-06-12T06:40:00Z');

-- One ticket for each segment, as the shop issued it with the booking.
INSERT INTO tickets (id, number, segment_id, status, issued_at, issued_by)
SELECT id + 1000, '731-2600' || (id + 1000), id,
    CASE status WHEN 'flown' THEN 'used' WHEN 'exchanged' THEN 'exchanged' ELSE 'open' END,
    created_at, CASE WHEN replaces_id IS NULL THEN 'shop' ELSE 'd.matos' END
FROM segments
ORDER BY id;

INSERT INTO seat_assignments (segment_id, flight_id, seat_id) VALUES
    (3001, 201, 3093), (3002, 205, 3093), (3007, 211, 3213), (3008, 211, 3121), (3009, 211, 3122),
    (3010, 211, 3131), (3011, 217, 2143), (3012, 217, 2144), (3019, 217, 2181), (3022, 224, 2103),
    (3026, 208, 3024), (3030, 220, 2071), (3031, 220, 2081), (3032, 220, 2083), (3036, 212, 3146),
    (3045, 235, 2054);

INSERT INTO ancillaries (id, segment_id, product_code, quantity, amount_cents, status, added_by, added_at) VALUES
    (7001, 3006, 'BAG23', 1, 4000, 'active', 'shop', '2026-06-03T21:16:00Z'),
    (7002, 3030, 'SPORT', 1, 5500, 'active', 'shop', '2026-06-02T20:58:00Z'),
    (7003, 3040, 'BAG23', 1, 4000, 'active', 'shop', '2026-05-22T07:05:00Z'),
    (7004, 3051, 'BAG23', 1, 4000, 'active', 'shop', '2026-06-07T07:30:00Z'),
    (7005, 3052, 'BAG23', 1, 4000, 'active', 'shop', '2026-06-07T07:30:00Z'),
    (7006, 3026, 'MEAL', 1, 1400, 'cancelled', 'd.matos', '2026-05-23T09:00:00Z'),
    (7007, 3034, 'WCHR', 1, 0, 'active', 'd.matos', '2026-05-20T11:00:00Z');

INSERT INTO waitlist (id, segment_id, flight_id, priority, status, joined_at) VALUES
    (951, 3054, 202, 'standard', 'waiting', '2026-06-13T10:20:00Z');

-- What the shop took for the fares, in one payment a booking; then the extras.
INSERT INTO payments (id, booking_id, purpose, method, method_reference, amount_cents, taken_at, taken_by)
SELECT b.id + 5500, b.id, 'fare', 'card', b.card_last4, sum(s.fare_cents), b.booked_at, 'shop'
FROM bookings b
JOIN segments s ON s.booking_id = b.id AND s.replaces_id IS NULL
GROUP BY b.id
ORDER BY b.id;

INSERT INTO payments (id, booking_id, purpose, method, method_reference, amount_cents, taken_at, taken_by) VALUES
    (6101, 501, 'seat', 'card', '4417', 900, '2026-05-18T10:13:00Z', 'shop'),
    (6102, 501, 'seat', 'card', '4417', 900, '2026-05-18T10:13:00Z', 'shop'),
    (6103, 504, 'ancillary', 'card', '6104', 4000, '2026-06-03T21:16:00Z', 'shop'),
    (6104, 506, 'seat', 'card', '5518', 2500, '2026-05-15T09:31:00Z', 'shop'),
    (6105, 506, 'seat', 'card', '5518', 2500, '2026-05-15T09:31:00Z', 'shop'),
    (6106, 508, 'seat', 'card', '8829', 900, '2026-05-20T20:21:00Z', 'shop'),
    (6107, 508, 'seat', 'card', '8829', 900, '2026-05-20T20:21:00Z', 'shop'),
    (6108, 512, 'seat', 'card', '3347', 900, '2026-06-07T18:03:00Z', 'shop'),
    (6109, 514, 'seat', 'card', '1185', 900, '2026-05-25T15:00:00Z', 'shop'),
    (6110, 521, 'ancillary', 'card', '7153', 5500, '2026-06-02T20:58:00Z', 'shop'),
    (6111, 529, 'ancillary', 'card', '2306', 4000, '2026-05-22T07:05:00Z', 'shop'),
    (6112, 533, 'seat', 'card', '1834', 1500, '2026-06-06T12:16:00Z', 'shop'),
    (6113, 536, 'ancillary', 'card', '7720', 4000, '2026-06-07T07:30:00Z', 'shop'),
    (6114, 536, 'ancillary', 'card', '7720', 4000, '2026-06-07T07:30:00Z', 'shop'),
    (6115, 517, 'ancillary', 'card', '2298', 1400, '2026-05-23T09:00:00Z', 'd.matos');

INSERT INTO refunds (id, booking_id, segment_id, amount_cents, reason, created_at, created_by) VALUES
    (6501, 517, 3026, 1400, 'ancillary', '2026-05-26T16:20:00Z', 'd.matos');

INSERT INTO vouchers (id, code, passenger_id, segment_id, kind, amount_cents, balance_cents, status, issued_at, issued_by, expires_on) VALUES
    (901, 'VB-7K2P9', 28, NULL, 'goodwill', 5000, 5000, 'open', '2025-05-31T15:00:00Z', 'i.quintela', '2026-05-31'),
    (902, 'VB-8M4T1', 28, NULL, 'compensation', 12500, 6000, 'open', '2025-11-02T10:30:00Z', 'd.matos', '2026-11-02'),
    (903, 'VB-8M4T7', 29, NULL, 'compensation', 5000, 5000, 'open', '2025-11-20T12:10:00Z', 'd.matos', '2026-11-20'),
    (904, 'VB-9C3R5', 6, 3034, 'compensation', 12500, 12500, 'open', '2026-06-14T11:05:00Z', 'd.matos', '2027-06-14'),
    (905, 'VB-5H8D3', 32, NULL, 'compensation', 25000, 25000, 'open', '2025-06-10T09:40:00Z', 'i.quintela', '2026-06-10');

INSERT INTO loyalty_accounts (id, number, passenger_id, tier, joined_on, balance_miles, tier_miles) VALUES
    (801, 'VP100231', 3, 'silver', '2024-02-11', 31240, 22380),
    (802, 'VP100407', 4, 'basic', '2025-09-01', 4120, 2860),
    (803, 'VP100118', 7, 'silver', '2022-05-30', 61205, 38450),
    (804, 'VP100320', 15, 'gold', '2021-10-08', 120340, 47210),
    (805, 'VP100512', 34, 'basic', '2026-05-20', 1500, 0),
    (806, 'VP100266', 32, 'silver', '2023-03-19', 18720, 20150),
    (807, 'VP100093', 14, 'basic', '2019-06-12', 9400, 0),
    (808, 'VP100345', 16, 'basic', '2025-01-27', 6130, 4480);

INSERT INTO loyalty_ledger (id, account_id, segment_id, kind, miles, posted_at, posted_by) VALUES
    (8501, 801, NULL, 'partner', 2500, '2026-03-02T00:10:00Z', 'system'),
    (8502, 801, 3015, 'flight', 1432, '2026-06-01T00:10:00Z', 'system'),
    (8503, 802, 3049, 'flight', 286, '2026-06-08T00:10:00Z', 'system'),
    (8504, 803, NULL, 'redemption', -15000, '2026-02-14T12:00:00Z', 'system'),
    (8505, 804, NULL, 'partner', 4000, '2026-04-19T00:10:00Z', 'system'),
    (8506, 805, NULL, 'partner', 1500, '2026-05-21T00:10:00Z', 'system'),
    (8507, 806, NULL, 'partner', 900, '2026-05-30T00:10:00Z', 'system'),
    (8508, 808, 3017, 'flight', 1163, '2026-06-14T00:10:00Z', 'system');

INSERT INTO notes (id, booking_id, body, written_at, written_by) VALUES
    (8801, 502, 'Customer asked what VT662 on 22 June would cost. Told him CLASSIC is 189.00 EUR today and that prices can change until he decides.', '2026-06-08T16:05:00Z', 'd.matos'),
    (8802, 513, 'Mother asked about the escort for Lourenço (7). Told her to call again with the name of the person who meets him.', '2026-06-09T10:40:00Z', 'd.matos'),
    (8803, 517, 'Hot meal cancelled, meals are included in BUSINESS. 14.00 EUR refunded.', '2026-05-26T16:21:00Z', 'd.matos'),
    (8804, 524, 'Customer asks for compensation for VT842 on 11 June. Voucher VB-9C3R5 issued.', '2026-06-14T11:06:00Z', 'd.matos'),
    (8805, 531, 'Quoted the change from VT350 on 18 June to VT350 on 17 June: CLASSIC 179.00 EUR on 9 June.', '2026-06-09T17:30:00Z', 'd.matos'),
    (8806, 534, 'VT176 of 10 June cancelled for weather. Rebooked to VT176 of 11 June without charge.', '2026-06-10T08:03:00Z', 'd.matos');

INSERT INTO escalations (id, booking_id, topic, amount_cents, body, status, opened_at, opened_by) VALUES
    (8901, 525, 'complaint', 0, 'Wheelchair came 25 minutes late in Rome.', 'answered', '2026-06-14T09:15:00Z', 'd.matos');

INSERT INTO audit_log (id, at, actor, action, entity, entity_id) VALUES
    (9001, '2026-05-20T11:00:00Z', 'd.matos', 'ancillary.added', 'ancillaries', 7007),
    (9002, '2026-05-26T16:20:00Z', 'd.matos', 'refund.created', 'refunds', 6501),
    (9003, '2026-06-10T08:02:00Z', 'd.matos', 'segment.changed', 'segments', 3047),
    (9004, '2026-06-10T08:02:00Z', 'd.matos', 'ticket.issued', 'tickets', 4047),
    (9005, '2026-06-14T09:15:00Z', 'd.matos', 'escalation.opened', 'escalations', 8901),
    (9006, '2026-06-14T11:05:00Z', 'd.matos', 'voucher.issued', 'vouchers', 904);
