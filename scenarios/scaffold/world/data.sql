-- Step 3. The rows. Add look-alikes: a world in which every name is unique tests little.
INSERT INTO owners (id, name, phone) VALUES
    (1, 'Emi Ito', '555-0101'),
    (2, 'Jonas Falk', '555-0102'),
    (3, 'Lucia Prado', '555-0103'),
    (4, 'Emil Itoh', '555-0104');
INSERT INTO pets (id, owner_id, name, species) VALUES
    (11, 1, 'Milo', 'cat'),
    (12, 2, 'Milo', 'dog'),  -- two pets have this name
    (13, 3, 'Bella', 'rabbit'),
    (14, 4, 'Rocky', 'dog'),
    (15, 2, 'Mila', 'cat');
INSERT INTO visits (id, pet_id, starts_at, reason, status) VALUES
    (101, 11, '2025-09-15 10:00', 'check-up', 'done'),
    (102, 14, '2026-03-16 15:00', 'dental', 'booked'),  -- today, so it is too late to cancel it
    (103, 12, '2026-03-19 11:30', 'check-up', 'booked'),
    (104, 11, '2026-03-19 10:00', 'check-up', 'booked'),
    (105, 13, '2026-03-18 16:00', 'surgery', 'cancelled'),
    (106, 13, '2026-03-24 09:30', 'vaccination', 'booked'),
    (107, 15, '2026-03-20 14:00', 'vaccination', 'booked');
